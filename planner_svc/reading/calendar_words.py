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
WEEKDAY = "(?:" + "|".join(WEEKDAYS) + ")"
YEAR = r"(?:19|20)\d\d"
RANGE = r"\s*(?:to|until|till|through|and|or|-|\u2013)\s*(?:the\s+)?"
"""What joins both ends of a range."""
