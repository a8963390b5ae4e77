"""Heads of HTTP as the proxy of endpoints reads and writes them: one meaning, or none."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jumar.server.proxy.heads import BadHead, foreign_source, parse_request, parse_response

GET = b"GET /a?b=c HTTP/1.1\r\nHost: ann:7500"


def with_lines(*lines: bytes, first: bytes = b"POST / HTTP/1.1") -> bytes:
    return b"\r\n".join([first, b"Host: ann:7500", *lines])


@pytest.mark.parametrize(
    "head",
    [
        with_lines(b"Content-Length: 3", b"Content-Length: 3"),
        with_lines(b"Content-Length: 3, 3"),
        with_lines(b"Content-Length: +3"),
        with_lines(b"Content-Length: 0x3"),
        with_lines(b"Content-Length: -1"),
        with_lines(b"Content-Length: "),
        with_lines(b"Content-Length: " + b"9" * 30),
        with_lines(b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        with_lines(b"Transfer-Encoding: gzip, chunked"),
        with_lines(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
        with_lines(b"Transfer-Encoding: chunked, identity"),
        with_lines(b"Transfer-Encoding:\x0bchunked"),
        with_lines(b"Transfer-Encoding : chunked"),
        with_lines(b" folded: line"),
        with_lines(b"X: a", b"\tfolded"),
        with_lines(b"X: a\nContent-Length: 3"),
        with_lines(b"X: a\rContent-Length: 3"),
        with_lines(b"X: a\0b"),
        with_lines(b"no colon"),
        with_lines(b": no name"),
        with_lines(b"Host: bob:7501"),
        with_lines(b"Expect: 200-ok"),
        b"GET / HTTP/1.1\r\nHost: bob@ann:7500",
        b"GET / HTTP/1.1\r\nHost: ann:7500/bob",
        b"GET / HTTP/1.1\r\nHost: ann:7500, bob:7501",
        b"GET / HTTP/1.1",
        b"GET http://bob:7501/ HTTP/1.1\r\nHost: ann:7500",
        b"GET //a b HTTP/1.1\r\nHost: ann:7500",
        b"GET  / HTTP/1.1\r\nHost: ann:7500",
        b"GET / HTTP/2.0\r\nHost: ann:7500",
        b"CONNECT bob:22 HTTP/1.1\r\nHost: ann:7500",
        b"OPTIONS * HTTP/1.1\r\nHost: ann:7500",
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3",
        b"",
    ],
)
def test_what_two_programs_could_read_differently_is_refused(head: bytes) -> None:
    with pytest.raises(BadHead):
        parse_request(head)


def test_the_job_sees_nothing_that_is_ours() -> None:
    head = parse_request(
        b"\r\n".join(
            [
                GET,
                b"Cookie: jumar_session=secret; theme=dark; JUMAR_endpoint_x=secret",
                b"cookie: _xsrf=2|3; __Host-jumar-x=secret",
                b"Authorization: Bearer secret",
                b"Connection: keep-alive, X-Private, Host, Cookie",
                b"X-Private: 1",
                b"X-Forwarded-For: 6.6.6.6",
                b"Upgrade: h2c",
                b"Accept: */*",
            ]
        )
    )
    sent = head.for_job("https")
    assert b"secret" not in sent
    assert sent.split(b"\r\n") == [
        b"GET /a?b=c HTTP/1.1",
        b"Host: ann:7500",
        b"Accept: */*",
        b"Cookie: theme=dark; _xsrf=2|3",
        b"X-Forwarded-Proto: https",
        b"Connection: close",
        b"",
        b"",
    ]


def test_an_answer_speaks_for_its_own_origin_only() -> None:
    answer = parse_response(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: jumar_session=mine; Path=/\r\n"
        b"Set-Cookie: =jumar_session=mine\r\nSet-Cookie: = __Host-Jumar_session=mine\r\n"
        b"Set-Cookie: theme=dark; Domain=example.org; Path=/\r\nClear-Site-Data: cookies\r\n"
        b"Strict-Transport-Security: max-age=1\r\nCache-Control: max-age=99\r\nKeep-Alive: 5\r\n"
        b"Connection: keep-alive\r\nContent-Length: 2"
    )
    shown = answer.for_browser(keeps_nothing=True, closes=True).split(b"\r\n")
    assert shown == [
        b"HTTP/1.1 200 OK",
        b"Set-Cookie: theme=dark; Path=/",
        b"Content-Length: 2",
        b"Cache-Control: no-cache",
        b"Connection: close",
        b"",
        b"",
    ]
    kept = answer.for_browser(keeps_nothing=False, closes=True)
    assert b"Cache-Control: max-age=99" in kept
    for bad in (
        b"HTTP/1.1 20 OK",
        b"SSH-2.0-OpenSSH",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2",
    ):
        with pytest.raises(BadHead) as refused:
            parse_response(bad)
        assert refused.value.status == 502


@pytest.mark.parametrize(
    ("lines", "is_foreign"),
    [
        ([b"Origin: http://ann:7500"], False),
        ([b"Origin: http://ann:7501"], True),
        ([b"Origin: null"], True),
        ([b"Origin: http://ann:7500.evil.org"], True),
        ([b"Sec-Fetch-Site: same-origin"], False),
        ([b"Sec-Fetch-Site: none"], False),
        ([b"Sec-Fetch-Site: same-site"], True),
        ([b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate"], False),
        (
            [
                b"Sec-Fetch-Site: same-site",
                b"Sec-Fetch-Mode: navigate",
                b"Sec-Fetch-Dest: iframe",
            ],
            True,
        ),
        ([], False),
        ([b"Referer: http://ann:7500/x"], False),
        ([b"Referer: http://ann:7420/jobs/x"], False),
        ([b"Referer: http://ann:7501/"], True),
    ],
)
def test_pages_of_other_origins_are_told_apart(lines: list[bytes], is_foreign: bool) -> None:
    head = parse_request(b"\r\n".join([GET, *lines]))
    assert foreign_source(head, {"ann:7420"}) is is_foreign


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(b"\r", b"\n", b"\r\n", b":", b" ", b"\t", b"\0", b";", b"3", b"chunked", b"Host"),
                *(b"Content-Length", b"Transfer-Encoding", b"Cookie", b"jumar_session=s"),
                b"GET / HTTP/1.1",
            ]
        ),
        max_size=12,
    )
)
@example([b"Cookie", b":", b":", b"jumar_session=s"])
def test_whatever_comes_is_refused_or_means_the_same_once_more(parts: list[bytes]) -> None:
    try:
        head = parse_request(GET + b"\r\n" + b"".join(parts))
    except BadHead:
        return
    sent = head.for_job("http")
    again = parse_request(sent[:-4])
    assert (again.method, again.target, again.length) == (head.method, head.target, head.length)
    assert b"jumar_session" not in sent or b"ookie" not in sent
