"""Requests as code: what is copied sends that request, and runs nothing else."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.auth.models import CLINICIAN
from fhirapp.features.explore.snippets import encoded, how_to_get_a_token, snippets
from tests.support.browsing import Browser
from tests.support.helpers import BASE_URL
from tests.support.pages import browser_of, explorer_address, links, texts

# The lines that a program in a browser omits.
_IN_NODE = """\
import smart from "fhirclient";
const FHIR = smart({}, {});
const token = process.env.TOKEN;

"""
# Text that would end a string, run a command, begin another line, or be taken for a pattern.
HOSTILE = [
    *("it's", '"; rm -rf /; "', "$(id)", "`id`", "$TOKEN", "\\", "\\'", "\n\r\tid", "é☃𝄞"),
    *("\u2028\u2029", "\u202eabc", "</script><script>", "{a,b}[1-3]#x", "!!", "%41 %zz"),
    *("a&b;c|d", "${x}", "*?~", "\x1b[31m\x07"),
]
TYPED = st.one_of(
    st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
)


@pytest.fixture(scope="module", autouse=True)
def _in_app(make_app: Callable[..., Flask]) -> Iterator[None]:
    with make_app(seed=False).app_context():
        yield


def codes(address: str, method: str = "GET", form: str = "", **options: object) -> dict[str, str]:
    return {snippet.label: snippet.code for snippet in snippets(address, method, form, **options)}


def called(code: str) -> dict[str, object]:
    """Return the arguments that a Python program passes to the one call that sends."""
    sending = {"client.execute", "requests.get", "requests.post", "SyncFHIRClient"}
    tree = ast.parse(code)
    imports = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    imported = {alias.name for line in imports for alias in line.names}
    assert imported <= {"os", "requests", "SyncFHIRClient"}
    found: dict[str, object] = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        assert name in sending | {"print"}
        if name in sending:
            found[name] = ast.literal_eval(call.args[0])
            for keyword in call.keywords:
                if keyword.arg in ("params", "data"):
                    found[keyword.arg] = ast.literal_eval(keyword.value)
                elif keyword.arg == "headers" and isinstance(keyword.value, ast.Dict):
                    # Authorization, which is first, is an expression.
                    found["headers"] = [*map(ast.literal_eval, keyword.value.values[1:])]
    return found


def pairs(given_: object) -> list[tuple[str, str]]:
    assert isinstance(given_, dict)
    return sorted((name, value) for name, values in given_.items() for value in values)


def test_search_is_copied_as_curl_python_and_javascript():
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
    search = "AllergyIntolerance?patient=p1&date=ge2024&date=lt2025"
    assert f'client.request("{search}")' in code["JavaScript"]
    assert f'serverUrl: "{BASE_URL}/fhir"' in code["JavaScript"]


def test_search_by_post_is_copied_with_its_form():
    code = codes("/fhir/AllergyIntolerance/_search", "post", "patient=p1&status=active")
    assert code == codes("/fhir/AllergyIntolerance?patient=p1&status=active", "POST")
    url = f"{BASE_URL}/fhir/AllergyIntolerance/_search"
    assert shlex.split(code["curl"])[3:] == ["--data", "patient=p1&status=active", url]
    form = {"patient": ["p1"], "status": ["active"]}
    sent = called(code["Python"])
    assert (sent["requests.post"], sent["data"]) == (url, form)
    assert 'url: "AllergyIntolerance/_search"' in code["JavaScript"]
    assert 'body: "patient=p1&status=active"' in code["JavaScript"]


def test_headers_of_a_request_are_copied():
    """Without its Prefer a mistyped search that was refused finds everybody's records."""
    headers = {"Prefer": "handling=strict", "If-None-Match": 'W/"3" it\'s'}
    code = codes("/fhir/Patient?nme=x", headers=headers)
    assert shlex.split(code["curl"])[3:7] == [
        *("-H", "Prefer: handling=strict", "-H", 'If-None-Match: W/"3" it\'s')
    ]
    assert called(code["Python"])["headers"] == [*headers.values()]
    assert 'headers: { "Prefer": "handling=strict", ' in code["JavaScript"]


@settings(max_examples=30)
@given(TYPED, TYPED, TYPED)
def test_any_address_is_one_argument_of_curl_and_the_same_in_python(segment, name, value):
    address = f"/fhir/{segment}?{name}={value}"
    code = codes(address)
    *words, sent = shlex.split(code["curl"])
    assert words == ["curl", "-H", "Authorization: Bearer $TOKEN"]
    assert sent.isascii()
    assert sent.isprintable()
    # curl takes braces for patterns, and does not send a fragment.
    assert not set(sent) & set("{}[]#")
    assert unquote(sent) == unquote(f"{BASE_URL}{address}")
    path, _, query = address.removeprefix("/fhir/").partition("?")
    found = called(code["Python"])
    assert found["SyncFHIRClient"] == f"{BASE_URL}/fhir"
    assert unquote(str(found["client.execute"])) == unquote(path)
    assert pairs(found["params"]) == sorted(parse_qsl(encoded(query), keep_blank_values=True))


def test_address_of_another_server_is_requested_here():
    for address in ("//evil.example/x", "/fhir/../../x", "https://evil.example/x", ""):
        assert shlex.split(codes(address)["curl"])[3].startswith(f"{BASE_URL}/")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_runs_nothing_but_curl(make_app):
    lines = [codes(f"/fhir/Patient?name={text}&{text}={text}")["curl"] for text in HOSTILE]
    script = "curl() { printf '%s\\0' \"$@\"; }\n" + "\n".join(lines)
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, env={"TOKEN": "abc"}, timeout=30
    )
    assert ran.stderr == b""
    words = ran.stdout.decode().split("\0")[:-1]
    header = ["-H", "Authorization: Bearer abc"]
    assert [words[at : at + 2] for at in range(0, len(words), 3)] == [header] * len(HOSTILE)
    assert [unquote(url) for url in words[2::3]] == [
        unquote(f"{BASE_URL}/fhir/Patient?name={text}&{text}={text}") for text in HOSTILE
    ]
    with make_app(demo=True).app_context():
        command = how_to_get_a_token()
    assert subprocess.run(["bash", "-n", "-c", command], check=False, timeout=30).returncode == 0


@pytest.mark.browser
def test_node_passes_the_same_address_to_fhirclient():
    cases = [
        (f"name={text}&{text}={text}", method) for text in HOSTILE for method in ("GET", "POST")
    ]
    written = [codes(f"/fhir/Patient?{query}", method)["JavaScript"] for query, method in cases]
    assert all(program.startswith(_IN_NODE) for program in written)
    programs = [program.removeprefix(_IN_NODE) for program in written]
    assert not any("</" in program for program in programs)
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
    sent = json.dumps(programs).encode()
    command = ["node", "-e", script]
    ran = subprocess.run(command, input=sent, capture_output=True, check=True, timeout=60)
    client = {"serverUrl": f"{BASE_URL}/fhir", "tokenResponse": {"access_token": "abc"}}
    for (query, method), (opened, request) in zip(cases, json.loads(ran.stdout), strict=True):
        assert opened == client
        if method == "GET":
            assert unquote(request) == unquote(f"Patient?{query}")
        else:
            assert (request["url"], request["method"]) == ("Patient/_search", "POST")
            assert unquote(request["body"]) == unquote(query)


def test_explorer_shows_the_code_of_its_request_and_the_demo_how_to_get_a_token(clinic, demo):
    for browser, is_demo in (
        (browser_of(clinic, CLINICIAN), False),
        (Browser(demo).resume("clinician"), True),
    ):
        page = browser.get(explorer_address("/fhir/Patient?name=<b>'", send="no"))
        commands = texts(page, "pre")
        assert any(
            f"'{BASE_URL}/fhir/Patient?name=%3Cb%3E'\"'\"''" in command for command in commands
        )
        token = "export TOKEN=$(curl -s -u demo-backend:demo -d grant_type="
        assert any(command.startswith(token) for command in commands) is is_demo
        assert "/explore/token" in links(page, "/explore/")
        for beside, header in (
            ({"prefer": "handling=strict"}, "Prefer: handling=strict"),
            ({}, "Accept: application/fhir+json"),
            ({"accept": "text/html"}, "Accept: text/html"),
        ):
            page = browser.get(explorer_address("/fhir/Binary/b", send="no", **beside))
            assert f"-H '{header}'" in page.words
    assert how_to_get_a_token() == ""
