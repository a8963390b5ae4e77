"""Versions of CANN and of packages: read, ordered, shortened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version as Pep440

from jumar.errors import BadInput
from jumar.host.versions import Version, parse_or_none

numbers = st.integers(0, 40)
three_numbers = st.tuples(numbers, numbers, numbers).map(lambda n: ".".join(map(str, n)))
package_versions = st.builds(
    "".join,
    st.tuples(
        three_numbers,
        st.sampled_from(["", "a1", "a2", "b1", "rc1", ".rc2"]),
        st.sampled_from(["", ".post1", ".post8", ".post12"]),
        st.sampled_from(["", ".dev3"]),
        st.sampled_from(["", "+cpu", "+git1234"]),
    ),
)
cann_versions = st.builds(
    "".join,
    st.tuples(
        st.tuples(numbers, numbers).map(lambda n: f"{n[0]}.{n[1]}"),
        st.sampled_from([".RC1", ".RC2", ".RC10", ".0", ".1", ".RC3.1"]),
        st.sampled_from(["", ".alpha001", ".alpha013", ".beta1"]),
    ),
)


@given(package_versions, package_versions)
def test_packages_are_ordered_as_pip_orders_them(one: str, other: str):
    ours = Version.parse(one), Version.parse(other)
    pips = Pep440(one.partition("+")[0]), Pep440(other.partition("+")[0])
    assert (ours[0] < ours[1]) == (pips[0] < pips[1])
    assert (ours[0] == ours[1]) == (pips[0] == pips[1])


@given(cann_versions)
def test_an_edition_comes_before_its_release_and_after_the_one_before(text: str):
    version = Version.parse(text)
    assert version <= version.release
    assert version.release.release == version.release
    assert Version.parse(f"{version.release}.alpha001") < version.release


@given(cann_versions | package_versions)
def test_a_version_is_given_back_as_written(text: str):
    assert str(Version.parse(f" {text} ")) == text


@given(cann_versions)
def test_case_does_not_matter(text: str):
    assert Version.parse(text.lower()) == Version.parse(text.upper())


@given(st.text(max_size=30))
def test_any_text_is_a_version_or_is_refused_in_words(text: str):
    version = parse_or_none(text)
    if version is not None:
        assert version.numbers
        return
    with pytest.raises(BadInput, match="is not a version number"):
        Version.parse(text)


def test_releases_of_cann_in_the_order_they_came_out():
    released = [
        "6.3.RC3",
        "6.3.RC3.1",
        "7.0.RC1.alpha003",
        "7.0.RC1.beta1",
        "7.0.RC1",
        "7.0.RC1.3.beta1",
        "7.0.0.beta1",
        "7.0.0",
        "8.0.RC1",
        "8.0.RC3",
        "8.0.0",
        "8.1.RC1",
        "8.5.0",
        "10.0.0",
    ]
    assert sorted(map(Version.parse, reversed(released))) == list(map(Version.parse, released))


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("7.0.RC1.alpha003", "7.0.RC1"),
        ("8.0.0.beta1", "8.0.0"),
        ("2.1.0.post8", "2.1.0.post8"),
        ("2.13.0a0+git", "2.13.0"),
    ],
)
def test_the_release_behind_an_edition(text: str, release: str):
    assert Version.parse(text).release == Version.parse(release)


@pytest.mark.parametrize(
    ("prefix", "version", "starts"),
    [
        ("2.7", "2.7.1.post4", True),
        ("2.1", "2.10.0", False),
        ("8.0", "8.0.RC3", True),
        ("2.7.1", "2.7", False),
    ],
)
def test_a_short_version_names_the_longer_ones(prefix: str, version: str, starts: bool):
    assert Version.parse(version).starts_with(Version.parse(prefix)) is starts


@pytest.mark.parametrize("text", ["", "latest", "8..0", "8.", "8.0.RCx", "9.1.X", "2.1;rm"])
def test_what_is_no_version_is_refused(text: str):
    with pytest.raises(BadInput, match="not a version"):
        Version.parse(text)
