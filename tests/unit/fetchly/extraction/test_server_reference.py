import pytest

from fetchly.errors import ConfigurationError
from fetchly.extraction.server_reference import ServerReference, is_server, parse_server_reference


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost:8000/v1", ServerReference("http://localhost:8000/v1")),
        ("HTTPS://Models.Example/v1/", ServerReference("https://models.example/v1")),
        ("http://[::1]:80/v1", ServerReference("http://[::1]:80/v1")),
        ("http://h/v1#Qwen/Qwen3-8B", ServerReference("http://h/v1", model="Qwen/Qwen3-8B")),
        ("http://h/v1#llama3%3A8b", ServerReference("http://h/v1", model="llama3:8b")),
        ("http://h/v1#", ServerReference("http://h/v1")),
        (
            "http://h/v1?context=8192&format=json_object&timeout=2.5#m",
            ServerReference("http://h/v1", "m", 8192, "json_object", 2.5),
        ),
    ],
)
def test_an_address_says_where_which_and_how(text: str, expected: ServerReference) -> None:
    assert is_server(text)
    assert parse_server_reference(text) == expected


@pytest.mark.parametrize("name", ["fetchly-135m", "hf:org/name", "pypi:n==1/m.gguf", "./http", "httpx", "/http://x"])
def test_other_models_are_no_servers(name: str) -> None:
    assert not is_server(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://me:s3cret@h/v1", "before @"),
        ("http://s3cret@h/v1", "before @"),
        ("http://h/v1?api_key=s3cret", "unknown setting 'api_key'"),
        ("http:///v1", "names no host"),
        ("http:h", "names no host"),
        ("http://h:99999/v1", "cannot be read"),
        ("http://h:0/v1", "no port 0"),
        ("http://[::1/v1", "cannot be read"),
        ("http://h/v1 #x", "a space"),
        ("http://h\n.evil/v1", "a control character"),
        ("http://h\\@evil/v1", "a backslash"),
        ("http://h/v1?context=0", "context is '0'"),
        ("http://h/v1?context=" + "9" * 5000, "context is"),
        ("http://h/v1?context=８１９２", "context is"),
        ("http://h/v1?context=", "context is ''"),
        ("http://h/v1?format=xml", "json_schema or json_object"),
        ("http://h/v1?timeout=-1", "timeout is '-1'"),
        ("http://h/v1?timeout=nan", "timeout is 'nan'"),
        ("http://h/v1?timeout=inf", "timeout is 'inf'"),
        ("http://h/v1?timeout=1&timeout=2", "stands twice"),
    ],
)
def test_a_wrong_address_is_refused_without_its_secrets(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_server_reference(text)
    assert said in caught.value.line()
    assert "s3cret" not in caught.value.line()


def test_routes_beside_the_api_stand_outside_v1() -> None:
    assert parse_server_reference("http://h:1/v1").root == "http://h:1"
    assert parse_server_reference("http://h:1/gateway/v1/").root == "http://h:1/gateway"
    assert parse_server_reference("http://h:1").root == "http://h:1"
