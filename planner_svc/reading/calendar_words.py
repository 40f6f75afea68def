"""The names of months and weekdays, and patterns of the parts of a date."""

MONTHS = {
    name: index
    for index, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
WEEKDAYS = {
    name: i for i, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
}
MONTH = "(?:" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
SHORT_WEEKDAYS = {
    "mon": 0,
    "tue": 1,
    "tues": 1,
    "wed": 2,
    "thu": 3,
    "thur": 3,
    "thurs": 3,
    "fri": 4,
    "sat": 5,
    "sun": 6,
}
"""As "mon", "wed", "sat" and "sun" are words too, all are read after a preposition only, and with a capital."""
WEEKDAY = (
    "(?:"
    + "|".join(WEEKDAYS)
    + r"|(?<=\b(?:on|by|to)\s)SHORT|(?<=\b(?:and|for)\s)SHORT|(?<=\b(?:from|next|this|last)\s)SHORT"
    r"|(?<=\b(?:until|after|since)\s)SHORT|(?<=\b(?:before|coming)\s)SHORT".replace(
        "SHORT", rf"(?-i:{'|'.join(sorted(map(str.capitalize, SHORT_WEEKDAYS), key=len, reverse=True))})\b\.?"
    )
    + ")"
)
WEEKDAY_NUMBERS = WEEKDAYS | SHORT_WEEKDAYS
"""Weekdays by their full and their short names, from Monday, 0."""
YEAR = r"(?:19|20)\d\d"
RANGE = r"\s*(?:to|until|till|through|and|or|-|\u2013)\s*(?:the\s+)?"
"""What joins both ends of a range."""
