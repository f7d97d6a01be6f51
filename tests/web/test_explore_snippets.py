"""Requests as programs send them: what is copied asks for that address, and does nothing else."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, unquote

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fhirapp.auth.models import CLINICIAN
from fhirapp.web.explore.snippets import encoded, how_to_get_a_token, snippets
from tests.support.browsing import Browser, add_person
from tests.support.helpers import BASE_URL

# What would end a text, run a command, begin another line, or be taken for a pattern.
# The lines that a program in a browser leaves out.
_IN_NODE = """\
import smart from "fhirclient";
const FHIR = smart({}, {});
const token = process.env.TOKEN;

"""
HOSTILE = [
    "it's",
    '"; rm -rf /; "',
    "$(id)",
    "`id`",
    "$TOKEN",
    "\\",
    "\\'",
    "\n\r\tid",
    "é☃𝄞",
    "\u2028\u2029",
    "\u202eabc",
    "</script><script>",
    "{a,b}[1-3]#x",
    "!!",
    "%41 %zz",
    "a&b;c|d",
    "${x}",
    "*?~",
    "\x1b[31m\x07",
]
texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
)


@pytest.fixture(scope="module", autouse=True)
def _in_app(make_app: Callable[..., Flask]) -> Iterator[None]:
    with make_app(seed=False).app_context():
        yield


def codes(address: str, method: str = "GET", form: str = "") -> dict[str, str]:
    return {one.label: one.code for one in snippets(address, method, form)}


def called(code: str) -> dict[str, object]:
    """Return the texts that a Python program hands to the one call that sends."""
    tree = ast.parse(code)
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    assert {name.name for one in imports for name in one.names} <= {
        *("os", "requests", "SyncFHIRClient"),
    }
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            *("client.execute", "requests.get", "requests.post", "SyncFHIRClient"),
        ):
            found[ast.unparse(node.func)] = ast.literal_eval(node.args[0])
            for one in node.keywords:
                if one.arg in ("params", "data"):
                    found[one.arg] = ast.literal_eval(one.value)
    calls = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    assert calls - {"client.execute", "requests.get", "requests.post", "SyncFHIRClient"} <= {
        "print"
    }
    return found


def pairs(given: object) -> list[tuple[str, str]]:
    assert isinstance(given, dict)
    return sorted((name, value) for name, values in given.items() for value in values)


def test_a_search_is_copied_as_curl_python_and_javascript():
    code = codes("/fhir/AllergyIntolerance?patient=p1&date=ge2024&date=lt2025")
    assert code["curl"] == (
        'curl -H "Authorization: Bearer $TOKEN"'
        f" '{BASE_URL}/fhir/AllergyIntolerance?patient=p1&date=ge2024&date=lt2025'"
    )
    assert called(code["Python"]) == {
        "SyncFHIRClient": f"{BASE_URL}/fhir",
        "client.execute": "AllergyIntolerance",
        "params": {"patient": ["p1"], "date": ["ge2024", "lt2025"]},
    }
    assert (
        'client.request("AllergyIntolerance?patient=p1&date=ge2024&date=lt2025")'
        in (code["JavaScript"])
    )
    assert f'serverUrl: "{BASE_URL}/fhir"' in code["JavaScript"]


def test_a_search_by_post_is_copied_with_its_form():
    code = codes("/fhir/AllergyIntolerance/_search", "post", "patient=p1&status=active")
    assert code == codes("/fhir/AllergyIntolerance?patient=p1&status=active", "POST")
    assert shlex.split(code["curl"])[3:] == [
        *("--data", "patient=p1&status=active"),
        f"{BASE_URL}/fhir/AllergyIntolerance/_search",
    ]
    assert called(code["Python"]) == {
        "requests.post": f"{BASE_URL}/fhir/AllergyIntolerance/_search",
        "data": {"patient": ["p1"], "status": ["active"]},
    }
    assert 'url: "AllergyIntolerance/_search"' in code["JavaScript"]
    assert 'body: "patient=p1&status=active"' in code["JavaScript"]


def test_the_headers_of_a_request_are_copied_too():
    """Without its Prefer a mistyped search that was refused finds everybody's records."""
    given = {"Prefer": "handling=strict", "If-None-Match": 'W/"3" it\'s'}
    code = {
        one.label: one.code for one in snippets("/fhir/Patient?nme=x", "GET", "", headers=given)
    }
    assert shlex.split(code["curl"])[3:7] == [
        *("-H", "Prefer: handling=strict", "-H", 'If-None-Match: W/"3" it\'s'),
    ]
    (call,) = (
        one
        for one in ast.walk(ast.parse(code["Python"]))
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "requests.get"
    )
    (sent,) = (one.value for one in call.keywords if one.arg == "headers")
    assert isinstance(sent, ast.Dict)
    assert [ast.literal_eval(one) for one in sent.values[1:]] == [*given.values()]
    assert 'headers: { "Prefer": "handling=strict", ' in code["JavaScript"]


@hypothesis_settings(max_examples=150)
@given(texts, texts, texts)
def test_whatever_is_typed_a_shell_hands_over_as_one_address(segment, name, value):
    address = f"/fhir/{segment}?{name}={value}"
    words = shlex.split(codes(address)["curl"])
    assert words[:3] == ["curl", "-H", "Authorization: Bearer $TOKEN"]
    (sent,) = words[3:]
    assert sent.isascii()
    assert sent.isprintable()
    # What curl takes for a pattern, and what it does not send.
    assert not set(sent) & set("{}[]#")
    assert unquote(sent) == unquote(f"{BASE_URL}{address}")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_runs_nothing_else():
    """Bash itself: what it hands to curl, written down instead of sent."""
    lines = [codes(f"/fhir/Patient?name={one}&{one}={one}")["curl"] for one in HOSTILE]
    script = "curl() { printf '%s\\0' \"$@\"; }\n" + "\n".join(lines)
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, env={"TOKEN": "abc"}, timeout=30
    )
    assert ran.stderr == b""
    words = ran.stdout.decode().split("\0")[:-1]
    assert [words[at : at + 2] for at in range(0, len(words), 3)] == [
        ["-H", "Authorization: Bearer abc"]
    ] * len(HOSTILE)
    assert [unquote(one) for one in words[2::3]] == [
        unquote(f"{BASE_URL}/fhir/Patient?name={one}&{one}={one}") for one in HOSTILE
    ]


@hypothesis_settings(max_examples=150)
@given(texts, texts, texts)
def test_whatever_is_typed_python_sends_the_same_parameters(segment, name, value):
    address = f"/fhir/{segment}?{name}={value}"
    query = address.partition("?")[2]
    found = called(codes(address)["Python"])
    assert found["SyncFHIRClient"] == f"{BASE_URL}/fhir"
    path = str(found["client.execute"])
    assert unquote(path) == unquote(address.removeprefix("/fhir/").partition("?")[0])
    assert pairs(found["params"]) == sorted(parse_qsl(encoded(query), keep_blank_values=True))


@hypothesis_settings(max_examples=100)
@given(texts, texts)
def test_whatever_is_typed_a_form_arrives_as_it_is(name, value):
    form = f"{name}={value}"
    code = codes("/fhir/Patient/_search", "POST", form)
    (sent,) = shlex.split(code["curl"])[4:5]
    assert unquote(sent) == unquote(form)
    assert pairs(called(code["Python"])["data"]) == sorted(
        parse_qsl(encoded(form), keep_blank_values=True)
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_javascript_hands_over_the_same_address():
    """Node itself: what it hands to fhirclient, written down instead of sent."""
    cases = [
        (f"/fhir/Patient?name={one}&{one}={one}", method)
        for one in HOSTILE
        for method in ("GET", "POST")
    ]
    written = [codes(address, method)["JavaScript"] for address, method in cases]
    assert all(one.startswith(_IN_NODE) for one in written)
    programs = [one.removeprefix(_IN_NODE) for one in written]
    assert not any("</" in one for one in programs)
    script = """
      const programs = JSON.parse(require("fs").readFileSync(0));
      const token = "abc";
      const console = { log() {} };
      const all = programs.map((program) => new Promise((done) => {
        const FHIR = { client: (given) => ({ request: (asked) => done([given, asked]) }) };
        eval(`(async () => { ${program} })()`);
      }));
      Promise.all(all).then((found) => process.stdout.write(JSON.stringify(found)));
    """
    ran = subprocess.run(
        ["node", "-e", script],
        input=json.dumps(programs).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    for (address, method), (opened, asked) in zip(cases, json.loads(ran.stdout), strict=True):
        assert opened == {
            "serverUrl": f"{BASE_URL}/fhir",
            "tokenResponse": {"access_token": "abc"},
        }
        query = address.partition("?")[2]
        if method == "GET":
            assert unquote(asked) == unquote(f"Patient?{query}")
        else:
            assert (asked["url"], asked["method"]) == ("Patient/_search", "POST")
            assert unquote(asked["body"]) == unquote(query)


def test_an_address_elsewhere_is_still_asked_here():
    for address in ("//evil.example/x", "/fhir/../../x", "https://evil.example/x", ""):
        sent = shlex.split(codes(address)["curl"])[3]
        assert sent.startswith(f"{BASE_URL}/")


def test_only_the_demo_says_how_to_get_a_token(make_app):
    assert how_to_get_a_token() == ""
    with make_app(demo=True).app_context():
        command = how_to_get_a_token()
    assert command.startswith("export TOKEN=$(curl -s -u demo-backend:demo -d grant_type=")
    assert subprocess.run(["bash", "-n", "-c", command], check=False, timeout=30).returncode == 0


@pytest.mark.parametrize(
    ("asked", "header"),
    [
        ("/fhir/Patient&prefer=handling=strict", "Prefer: handling=strict"),
        ("/fhir/Binary/b", "Accept: application/fhir+json"),
        ("/fhir/Binary/b&accept=text/html", "Accept: text/html"),
    ],
)
def test_the_explorer_copies_its_headers(make_app, asked, header):
    app = make_app(demo=True)
    page = Browser(app).resume("clinician").get(f"/explore?send=no&address={asked}")
    assert f"-H '{header}'" in page.words


@pytest.mark.parametrize("is_demo", [True, False])
def test_the_explorer_shows_them(make_app, is_demo):
    app = make_app(demo=is_demo)
    browser = Browser(app).resume("clinician" if is_demo else add_person(app, CLINICIAN))
    page = browser.get("/explore?address=/fhir/Patient%3Fname%3D%3Cb%3E%27&send=no")
    assert "Copy as curl" in page.words
    assert f"'{BASE_URL}/fhir/Patient?name=%3Cb%3E'\"'\"''" in page.words
    assert ("export TOKEN=$(curl" in page.words) is is_demo
    assert page.links["your own token" if is_demo else "your own"] == "/explore/token"
