"""A minimal image and a minimal sound."""

from base64 import b64decode
from struct import pack

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
"""One red pixel."""

RATE = 8000
SAMPLES = bytes([128]) * 80
WAV = b"".join(
    (
        b"RIFF" + pack("<I", 36 + len(SAMPLES)) + b"WAVE",
        b"fmt " + pack("<IHHIIHH", 16, 1, 1, RATE, RATE, 1, 8),
        b"data" + pack("<I", len(SAMPLES)) + SAMPLES,
    )
)
"""A hundredth of a second of silence."""
