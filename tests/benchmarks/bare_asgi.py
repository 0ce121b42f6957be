"""The bare application as a server loads it; BENCH_ANSWER names the file with its answer."""

import os
from pathlib import Path

from tests.benchmarks.answers import Answer
from tests.benchmarks.bare import answering

application = answering(Answer.from_json(Path(os.environ["BENCH_ANSWER"]).read_bytes()))
