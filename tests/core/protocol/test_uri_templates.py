"""Resource templates: expanded by RFC 6570, matched as documented, in linear time."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_mcp.core.protocol.uri_templates import MAX_LENGTH, UriTemplate, is_uri, is_uri_template
from tests.rows import rows
from tests.spec import spec

# The values and examples of RFC 6570, sections 1.2 and 3.2, without lists and level 4.
VALUES: dict[str, str | int | None] = {
    "var": "value",
    "hello": "Hello World!",
    "half": "50%",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "dub": "me/too",
    "v": "6",
    "x": 1024,
    "y": "768",
    "empty": "",
    "undef": None,
}

EXPANSIONS = [
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("map?{x,y}", "map?1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("?{x,empty}", "?1024,"),
    ("?{x,undef}", "?1024"),
    ("?{undef,y}", "?768"),
    ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"),
    ("{+half}", "50%25"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("O{+empty}X", "OX"),
    ("O{+undef}X", "OX"),
    ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"),
    ("{#var}", "#value"),
    ("{#hello}", "#Hello%20World!"),
    ("{#half}", "#50%25"),
    ("foo{#empty}", "foo#"),
    ("foo{#undef}", "foo"),
    ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("{.who}", ".fred"),
    ("{.half,who}", ".50%25.fred"),
    ("X{.var}", "X.value"),
    ("X{.empty}", "X."),
    ("X{.undef}", "X"),
    ("X{.x,y}", "X.1024.768"),
    ("{/who}", "/fred"),
    ("{/half,who}", "/50%25/fred"),
    ("{/who,dub}", "/fred/me%2Ftoo"),
    ("{/var,empty}", "/value/"),
    ("{/var,undef}", "/value"),
    ("{/var,x}/here", "/value/1024/here"),
    ("{;who}", ";who=fred"),
    ("{;half}", ";half=50%25"),
    ("{;empty}", ";empty"),
    ("{;v,empty,who}", ";v=6;empty;who=fred"),
    ("{;v,bar,who}", ";v=6;who=fred"),
    ("{;x,y,undef}", ";x=1024;y=768"),
    ("{?who}", "?who=fred"),
    ("{?half}", "?half=50%25"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{&half}", "&half=50%25"),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="),
    ("{&x,y,undef}", "&x=1024&y=768"),
    # Not in the RFC: literals that a URI cannot contain, encoded literals, no variables.
    ("my notes/é/100%/%41", "my%20notes/%C3%A9/100%25/%41"),
    ("", ""),
]


@spec("RES-04")
@rows(("template", "uri"), EXPANSIONS)
def test_template_expands_as_rfc_6570_defines(template: str, uri: str) -> None:
    assert UriTemplate.parse(template).expand(VALUES) == uri


def test_reserved_expansion_keeps_percent_encoded_triplets() -> None:
    assert UriTemplate.parse("{+a}").expand({"a": "50%25 100%"}) == "50%25%20100%25"
    assert UriTemplate.parse("{a}").expand({"a": "%25"}) == "%2525"


FILLED = [(t, u) for t, u in EXPANSIONS if not re.search("empty|undef|bar", t)]


@rows(("template", "uri"), FILLED)
def test_template_matches_its_own_expansion(template: str, uri: str) -> None:
    parsed = UriTemplate.parse(template)
    found = parsed.match(uri)
    assert found is not None
    assert tuple(found) == parsed.names
    assert parsed.expand(found) == uri


@rows(
    ("template", "values", "leads_outside"),
    [
        ("{a}", {"a": "x"}, False),
        ("{a}", {"a": "..x"}, False),
        ("{a}", {"a": "x:1"}, True),
        ("{a}", {"a": "id:1"}, False),
        ("{a}", {"a": "x/y"}, True),
        ("{.a}", {"a": "x\\y"}, True),
        ("{/a}", {"a": "x/y"}, True),
        ("{+a}", {"a": "x/y:z"}, False),
        ("{#a}", {"a": "x/y"}, False),
        ("{?a}", {"a": "x/y"}, False),
        ("{;a}", {"a": "/x"}, True),
        ("{+a}", {"a": "/x"}, True),
        ("{+a}", {"a": "\\x"}, True),
        ("{+a}", {"a": "C:x"}, True),
        ("{+a}", {"a": "x/../../y"}, True),
        ("{+a}/{b}", {"a": "x/y", "b": "x/y"}, True),
    ],
)
def test_values_that_may_leave_a_folder_are_detected(
    template: str, values: dict[str, str], leads_outside: bool
) -> None:
    assert UriTemplate.parse(template).leads_outside(values) is leads_outside


MATCHES: list[tuple[str, str, dict[str, str] | None]] = [
    ("test://template/{id}/data", "test://template/123/data", {"id": "123"}),
    ("test://template/{id}/data", "test://template/a b/data", {"id": "a b"}),
    ("test://template/{id}/data", "test://template/a%2Fb/data", {"id": "a/b"}),
    ("test://template/{id}/data", "test://template/%C3%A9/data", {"id": "é"}),
    ("test://template/{id}/data", "test://template/é/data", {"id": "é"}),
    ("test://template/{id}/data", "test://template/a:b@c,d/data", {"id": "a:b@c,d"}),
    ("test://template/{id}/data", "test://template/100%/data", {"id": "100%"}),
    ("test://template/{id}/data", "test://template//data", None),
    ("test://template/{id}/data", "test://template/1/2/data", None),
    ("test://template/{id}/data", "test://template/1?/data", None),
    ("test://template/{id}/data", "test://template/1#/data", None),
    ("test://template/{id}/data", "test://template/1/data/", None),
    ("test://template/{id}/data", "xtest://template/1/data", None),
    ("test://template/{id}/data", "TEST://template/1/data", None),
    ("test://template/{id}/data", "test://template/1/data\n", None),
    ("test://template/{id}/data", "", None),
    ("n/{x}", "n/a%00b", None),
    ("n/{x}", "n/a\0b", None),
    ("n/{x}", "n/%ff", None),
    ("n/{x}", "n/\ud800", None),
    ("n/{x}", "n/%41", {"x": "A"}),
    ("my notes/{x}", "my notes/1", {"x": "1"}),
    ("my notes/{x}", "my%20notes/1", {"x": "1"}),
    ("static", "static", {}),
    ("static", "static/", None),
    ("{name}.{ext}", "a.tar.gz", {"name": "a", "ext": "tar.gz"}),
    ("{a}2{b}", "x%2Fy2z", {"a": "x/y", "b": "z"}),
    ("{a}-{b}", "--", None),
    ("{a}-{b}", "---", {"a": "-", "b": "-"}),
    ("{a}--{b}", "x---y", {"a": "x", "b": "-y"}),
    ("{x,y}", "1,2", {"x": "1", "y": "2"}),
    ("{x,y}", "1", None),
    ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
    ("file:///{+path}", "file:///a?b#c", {"path": "a?b#c"}),
    ("file:///{+path}", "file:///../x", {"path": "../x"}),
    ("file:///{+path}", "file:///", None),
    ("{+path}/{id}", "a/b/c", {"path": "a/b", "id": "c"}),
    ("{+path}/{id}.json", "a/b.json/c.json", {"path": "a/b.json", "id": "c"}),
    ("{+a}/x/{+b}", "1/x/2/x/3", {"a": "1", "b": "2/x/3"}),
    ("{+path}{?rev}", "a/b?rev=1", {"path": "a/b", "rev": "1"}),
    ("{+path}{?rev}", "a/b?rev=1&rev=2", None),
    ("{+path}#top", "a#b#top", None),
    ("{+path}{;v}", "a/b;v=1", {"path": "a/b", "v": "1"}),
    ("s://x{?q,limit}", "s://x", {}),
    ("s://x{?q,limit}", "s://x?", {}),
    ("s://x{?q,limit}", "s://x?limit=2&q=1", {"q": "1", "limit": "2"}),
    ("s://x{?q,limit}", "s://x?q=", {"q": ""}),
    ("s://x{?q,limit}", "s://x?q", {"q": ""}),
    ("s://x{?q,limit}", "s://x?&q=1&", {"q": "1"}),
    ("s://x{?q,limit}", "s://x?q=a%26b=c+d/e?f", {"q": "a&b=c+d/e?f"}),
    ("s://x{?q,limit}", "s://x?q=1&q=2", None),
    ("s://x{?q,limit}", "s://x?q=1&other=2", None),
    ("s://x{?q,limit}", "s://x?q=1#top", None),
    ("s://x{?q,limit}", "s://x&q=1", None),
    ("s://x{?q,limit}", "s://xq=1", None),
    ("s://{id}{?q}{#part}", "s://1?q=2#3", {"id": "1", "q": "2", "part": "3"}),
    ("s://{id}{?q}{#part}", "s://1#3", {"id": "1", "part": "3"}),
    ("s://{id}{?q}{#part}", "s://1", {"id": "1"}),
    ("s://x{?q}#top", "s://x?q=1#top", {"q": "1"}),
    ("s{?a}{&b}{&c}", "s?c=1&a=2", {"a": "2", "c": "1"}),
    ("s?fixed=1{&x,y}", "s?fixed=1&y=2", {"y": "2"}),
    ("s?fixed=1{&x,y}", "s?fixed=1", {}),
    ("s?fixed=1{&x,y}", "s?y=2", None),
    ("s?q={q}&limit={limit}", "s?q=a/b&limit=1", None),
    ("s?q={q}&limit={limit}", "s?q=a&limit=1", {"q": "a", "limit": "1"}),
    ("s?q={q}&limit={limit}", "s?q=a&x=1&limit=1", None),
    ("s?q={q}{&limit}", "s?q=a&limit=1", {"q": "a", "limit": "1"}),
    ("s?u={+u}{&x}", "s?u=http://a/?b&x=1", {"u": "http://a/?b", "x": "1"}),
    ("m{;x,y}/z", "m;y=1;x/z", {"x": "", "y": "1"}),
    ("m{;x,y}/z", "m/z", {}),
    ("m{;x,y}/z", "m;q=1/z", None),
    ("{id}{;x}", "1;x=2", {"id": "1", "x": "2"}),
    ("u{/id}", "u/3", {"id": "3"}),
    ("u{/id}", "u", {}),
    ("u{/id}", "u/", None),
    ("u{/a,b}", "u/1", {"a": "1"}),
    ("u{/a,b}/edit", "u/1/edit", {"a": "1"}),
    ("u{/a,b}/edit", "u/1/2/edit", {"a": "1", "b": "2"}),
    ("u{/a,b}/edit", "u/edit", {}),
    ("u/{id}{.format}", "u/1.json", {"id": "1", "format": "json"}),
    ("u/{id}{.format}", "u/a.tar.gz", {"id": "a.tar", "format": "gz"}),
    ("u/{id}{.format}", "u/1", {"id": "1"}),
    ("d{#part}", "d#a/b?c#d", {"part": "a/b?c#d"}),
    ("{#a,b}", "#1,2,3", {"a": "1", "b": "2,3"}),
    ("{a.b}/{c_d}/{e%41}", "1/2/3", {"a.b": "1", "c_d": "2", "e%41": "3"}),
]


@rows(("template", "uri", "values"), MATCHES)
def test_template_matches_only_a_complete_uri(
    template: str, uri: str, values: dict[str, str] | None
) -> None:
    assert UriTemplate.parse(template).match(uri) == values


def test_uri_above_the_maximum_length_does_not_match() -> None:
    template = UriTemplate.parse("x{+rest}")
    assert template.match("x" * MAX_LENGTH) is not None
    assert template.match("x" * (MAX_LENGTH + 1)) is None


INVALID_TEMPLATES = [
    ("{", "braces"),
    ("a}", "braces"),
    ("{a", "braces"),
    ("{a}}", "braces"),
    ("{a{b}}", "braces"),
    ("{}", "without a name"),
    ("{+}", "without a name"),
    ("{a,}", "without a name"),
    ("{,a}", "without a name"),
    ("{a b}", "made of letters"),
    ("{a-b}", "made of letters"),
    ("{.a.}", "made of letters"),
    ("{é}", "made of letters"),
    ("{a\u0662}", "made of letters"),
    ("{a*}", "level 4"),
    ("{?a*}", "level 4"),
    ("{a:3}", "level 4"),
    ("{=a}", "keeps for the future"),
    ("{|a}", "keeps for the future"),
    ("{!a}", "keeps for the future"),
    ("{a,a}", "occurs twice"),
    ("{a}/{+a}", "occurs twice"),
    ("{a}{?a}", "occurs twice"),
    ("{a}{b}", "Nothing separates 'b'"),
    ("up{+path}{var}/here", "Nothing separates 'var'"),
    ("u{/a}{b}", "Nothing separates 'b'"),
    ("{a}{?q}{b}", "Nothing separates 'b'"),
    ("{?q}x", "'x' cannot follow"),
    ("{?q}{/id}", "'/' cannot follow"),
    ("{?q}{?r}", "cannot follow"),
    ("{;q}x", "'x' cannot follow"),
    ("a\nb", "control character"),
    ("a\0b", "control character"),
    ("x" * (MAX_LENGTH + 1), "at most 8192"),
    ("/".join(f"{{v{n}}}" for n in range(51)), "more than 50"),
]


@rows(("template", "remedy"), INVALID_TEMPLATES)
def test_invalid_template_is_rejected_with_a_remedy(template: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        UriTemplate.parse(template)


# Valid ones are of RFC 3986, section 1.1.2, or have each part.
@rows(
    "uri",
    [
        "ftp://ftp.is.co.za/rfc/rfc1808.txt",
        "ldap://[2001:db8::7]/c=GB?objectClass?one",
        "mailto:John.Doe@example.com",
        "news:comp.infosystems.www.servers.unix",
        "tel:+1-816-555-1212",
        "telnet://192.0.2.16:80/",
        "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
        "a+b.c-1://u:p@h:80/a%20b;c=!$&'()*+,;=?q=/?#f?/",
        "x:",
    ],
)
def test_uri_is_recognized(uri: str) -> None:
    assert is_uri(uri)


@rows(
    "text",
    [
        *("", "x", "/a", "://x", "1a:b", "a_b:c", "a b:c", "ä:x", "+a:b", "#a:b"),
        *("a:b c", "a:ä", "a:%2", "a:%zz", "a:b#c#d", "a:[b]", "http://[::1", "http://[x]/"),
        *("a:b\n", "a:\t", 'a:"', "a:<", "a:>", "a:\\", "a:^", "a:`", "a:{b}", "a:|", "a:?[]"),
    ],
)
def test_text_that_is_no_uri_is_not_recognized(text: str) -> None:
    assert not is_uri(text)


@rows(
    ("template", "expected"),
    [
        ("s://a/{b}", True),
        ("s://ä/{b}", True),
        ("{scheme}://{+x}{?q}", True),
        ("s:{x}{#f}", True),
        ("{+x}", False),
        ("1{x}:a", False),
        ("ä:{x}", False),
        ("s://a b/{x}", False),
    ],
)
def test_template_that_expands_to_uris_is_recognized(template: str, expected: bool) -> None:
    assert is_uri_template(template) is expected


def test_variable_names_are_in_template_order() -> None:
    assert UriTemplate.parse("s://{b}/{+a}{?d,c}").names == ("b", "a", "d", "c")


def test_more_specific_template_sorts_first() -> None:
    texts = ["s://{+all}", "s://{a}", "s://x/{a}/{b}", "s://x/{a}/y", "s://x/{+a}", "s://x/{a}"]
    ordered = sorted(texts, key=lambda text: UriTemplate.parse(text).specificity)
    assert ordered == [
        "s://x/{a}/y",
        "s://x/{a}/{b}",
        "s://x/{a}",
        "s://x/{+a}",
        "s://{a}",
        "s://{+all}",
    ]


def test_templates_with_equal_text_are_equal() -> None:
    assert UriTemplate.parse("a{b}") == UriTemplate.parse("a{b}")
    assert (
        len({UriTemplate.parse("a{b}"), UriTemplate.parse("a{b}"), UriTemplate.parse("a{c}")}) == 2
    )


ADVERSARIAL = [
    ("{a}-{b}-{c}-{d}x/", "-"),
    ("{+a}-{+b}-{+c}-{+d}x", "-"),
    ("{+a}/{b}-{c}/{+d}!", "/-"),
    ("{+a}{/b,c}{.d,e}!", "/a.b"),
    ("{+a}{/b}{.c}{;d}{?e}{#f}!", "/.;"),
    ("{a}aa{b}aa{c}aa{d}!", "a"),
    ("s{?a,b}!", "?a=1&"),
]


@rows(("template", "unit"), ADVERSARIAL)
def test_match_of_an_adversarial_uri_takes_linear_time(template: str, unit: str) -> None:
    if "{?a,b}!" in template or "{#f}!" in template:
        template = template.removesuffix("!")
    parsed = UriTemplate.parse(template)
    start = process_time()
    parsed.match((unit * MAX_LENGTH)[:MAX_LENGTH])
    # A backtracking matcher takes minutes here.
    assert process_time() - start < 2


# Parts of templates, and equivalent regular expressions (of any cost).
PIECES = {
    "a": "a",
    "-": "-",
    "/": "/",
    ".a": r"\.a",
    "{%s}": "(?P<%s>[^/?#]+?)",
    "{+%s}": "(?P<%s>.+?)",
    "{/%s}": "(?:/(?P<%s>[^/?#]+?))?",
    "{.%s}": r"(?:\.(?P<%s>[^/?#.]+?))?",
}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(PIECES)), max_size=6),
    st.lists(st.text("a-./", max_size=8), min_size=9),
)
def test_match_agrees_with_a_regular_expression(pieces: list[str], uris: list[str]) -> None:
    named = [
        (p % f"v{i}", PIECES[p] % f"v{i}") if "%s" in p else (p, PIECES[p])
        for i, p in enumerate(pieces)
    ]
    try:
        template = UriTemplate.parse("".join(text for text, _ in named))
    except ValueError:
        return
    oracle = re.compile("".join(pattern for _, pattern in named))
    for uri in uris:
        found = oracle.fullmatch(uri)
        expected = found and {k: v for k, v in found.groupdict().items() if v is not None}
        assert template.match(uri) == expected


TEXTS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")

ROUND_TRIPS = [
    "s://{a}",
    "s://{a}/{b}",
    "s://{a}-{b}.{c}",
    "s://{a,b}",
    "s://{a}{.b}{/c}",
    "s://{a}{?b,c}",
    "s://{a}{;b}/{c}",
    "s://x?a={a}{&b,c}",
    "s://{a}{?b}{&c}",
]


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(ROUND_TRIPS),
    st.fixed_dictionaries({n: st.text(TEXTS, min_size=1, max_size=200) for n in "abc"}),
)
def test_any_expansion_matches_and_expands_to_the_same_uri(
    text: str, values: dict[str, str]
) -> None:
    template = UriTemplate.parse(text)
    uri = template.expand(values)
    found = template.match(uri)
    assert found is not None
    assert template.expand(found) == uri


@settings(max_examples=100, deadline=None)
@given(st.text() | st.text("{}+#./;?&,ab"), st.text() | st.text("ab/?#&=;,.%0"))
def test_any_text_is_rejected_as_a_template_or_can_be_matched(text: str, uri: str) -> None:
    try:
        template = UriTemplate.parse(text)
    except ValueError:
        return
    found = template.match(uri)
    assert found is None or set(found) <= set(template.names)
