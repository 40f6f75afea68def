"""Requests that no catalogue of APIs serves: chat, opinions, chores in the house."""

from __future__ import annotations

import random

from training.planner import banks

_FORMS = (
    "Write me a poem about {topic}",
    "Tell me a joke",
    "What do you think about {topic}?",
    "Who won the world cup in {year}?",
    "Switch on the light in the {room}",
    "How are you today?",
    "Thanks, that was all.",
    "Who wrote {title}?",
    "Explain {topic} to a ten-year-old",
    "What's the capital of {country}?",
    "Sum up the plot of {title} in three lines",
    "Make me a sandwich",
    "Is it better to rent or to buy?",
    "Sing me a song",
    "What should I cook with {food} leftovers?",
    "Give me five arguments against {topic}",
    "Rewrite this in a friendlier tone: {message}",
    "Do you have feelings?",
    "Why is the sky blue?",
    "Proofread: {message}",
    "who are you",
    "Help me with my homework in {subject}",
    "How do I get stains out of a {colour} shirt?",
    "What was the weather like when Napoleon died?",
    "Open the garage door",
    "Come up with a name for my {animal}",
    "I can't sleep. Any ideas?",
    "What would {name} say about that?",
    "asdf",
    "Play hide and seek with me",
    "How many people believe in {topic}?",
    "Give me a recipe for {food}",
)


def unserved_request(rng: random.Random) -> str:
    """Draw one such request."""
    said = rng.choice(_FORMS).format(
        topic=rng.choice(banks.TOPICS), year=rng.randint(1970, 2022), room=rng.choice(("kitchen", "hall", "garage")),
        title=rng.choice(banks.TITLES), country=rng.choice(banks.COUNTRIES), food=rng.choice(banks.FOODS),
        message=rng.choice(banks.MESSAGES), subject=rng.choice(banks.SUBJECTS), colour=rng.choice(banks.COLOURS),
        animal=rng.choice(banks.ANIMALS), name=rng.choice(banks.FIRST),
    )  # fmt: skip
    return said.lower() if rng.random() < 0.15 else said
