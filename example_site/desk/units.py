"""Units of measurement as multiples of a base unit."""

UNITS = {
    "length": {
        "metre": 1.0,
        "kilometre": 1000.0,
        "inch": 0.0254,
        "foot": 0.3048,
        "mile": 1609.344,
    },
    "mass": {
        "kilogram": 1.0,
        "gram": 0.001,
        "ounce": 0.028349523125,
        "pound": 0.45359237,
        "stone": 6.35029318,
    },
    "volume": {
        "litre": 1.0,
        "millilitre": 0.001,
        "pint": 0.56826125,
        "gallon": 4.54609,
    },
}


def quantity_of(unit: str) -> str | None:
    """Return the quantity of ``unit``, or None if the unit is unknown."""
    return next((quantity for quantity, units in UNITS.items() if unit in units), None)


def convert(amount: float, source: str, target: str) -> float:
    """Convert ``amount``; raises ValueError unless both units measure the same quantity."""
    quantity = quantity_of(source)
    if quantity is None or target not in UNITS[quantity]:
        raise ValueError(f"{source} and {target} are not units of the same quantity")
    return amount * UNITS[quantity][source] / UNITS[quantity][target]
