"""The bare application as an ASGI module; BENCH_ANSWER names the file with the response."""

import os
from pathlib import Path

from tests.benchmarks.answers import Answer
from tests.benchmarks.bare import answering

application = answering(Answer.from_json(Path(os.environ["BENCH_ANSWER"]).read_bytes()))
