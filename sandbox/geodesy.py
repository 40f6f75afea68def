"""Distances and directions on a spherical earth (haversine formula; within 0.5% of the ellipsoid)."""

from __future__ import annotations

from math import asin, atan2, cos, degrees, radians, sin, sqrt

EARTH_RADIUS_KM = 6371.0088  # mean radius, IUGG

Point = tuple[float, float]  # latitude and longitude in degrees


def distance_km(start: Point, end: Point) -> float:
    """Great-circle distance in kilometres."""
    (lat1, lon1), (lat2, lon2) = start, end
    phi1, phi2 = radians(lat1), radians(lat2)
    half = sin((phi2 - phi1) / 2) ** 2 + cos(phi1) * cos(phi2) * sin(radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(half)))


def initial_bearing(start: Point, end: Point) -> float:
    """Direction at the start of the great circle, in degrees clockwise from north, 0 <= bearing < 360."""
    (lat1, lon1), (lat2, lon2) = start, end
    phi1, phi2, delta = radians(lat1), radians(lat2), radians(lon2 - lon1)
    east = sin(delta) * cos(phi2)
    north = cos(phi1) * sin(phi2) - sin(phi1) * cos(phi2) * cos(delta)
    return round(degrees(atan2(east, north)) % 360, 1) % 360
