"""What looks like a secret is one rule, written twice: the launcher can import nothing of ours."""

from hypothesis import given
from hypothesis import strategies as st

from jumar.launch.ranks.environment import inherited
from jumar.spec.job import MASK, JobSpec

PIECES = ["TOKEN", "Secret", "PASSWORD", "CREDENTIALS", "AK", "SK", "PAT", "KEY", "AUTH", "API"]
NAMES = st.lists(st.sampled_from([*PIECES, "_", "MON", "2", "HOME"]), min_size=1, max_size=5).map(
    "".join
)


@given(NAMES.filter(lambda name: not name[0].isdigit()))
def test_the_launcher_drops_what_pages_mask(name: str) -> None:
    spec = JobSpec.model_validate({"name": "x", "command": "true", "environment": {name: "value"}})
    is_masked = spec.masked()["environment"][name] == MASK
    is_dropped = name not in inherited({name: "value"})
    assert is_masked == is_dropped
