"""A feed's followers get each event once, in order, whenever they begin."""

import asyncio

from services.ownership.feed import Feed


async def test_followers_get_all_events_whenever_they_begin() -> None:
    feed: Feed[int] = Feed()
    feed.publish(1)

    async def follow(skip: int) -> list[int]:
        return [event async for event in feed.follow(skip)]

    early = [asyncio.create_task(follow(skip)) for skip in (0, 1, 2)]
    await asyncio.sleep(0)
    feed.publish(2)
    await asyncio.sleep(0)
    feed.publish(3)
    feed.end()
    assert [await task for task in early] == [[1, 2, 3], [2, 3], [3]]
    assert await follow(0) == [1, 2, 3]
    assert await follow(5) == []


async def test_a_follower_waits_for_the_end() -> None:
    feed: Feed[int] = Feed()
    follower = asyncio.create_task(anext(feed.follow(), None))
    await asyncio.sleep(0)
    assert not follower.done()
    feed.end()
    assert await follower is None
