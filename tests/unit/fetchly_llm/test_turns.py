import os
import subprocess
import sys
import threading
import time

import pytest

from fetchly_llm.turns import Turns


def test_one_thread_at_a_time_and_the_next_after_an_error() -> None:
    turns, inside, most = Turns("it"), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with turns.take():
                inside += 1
                most = max(most, inside)
                time.sleep(0.0001)
                inside -= 1

    with pytest.raises(KeyError), turns.take():
        raise KeyError
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.parametrize(("is_busy", "answer"), [(True, "forked while another of its threads"), (False, "mine")])
def test_a_fork_is_told_that_its_turn_never_comes(is_busy: bool, answer: str) -> None:
    """In a process of its own, as other tests' threads make Python warn of forks."""
    program = (
        "import os, threading\n"
        "from fetchly_llm.errors import RequestInvalid\n"
        "from fetchly_llm.turns import Turns\n"
        "turns, begun, end = Turns('it'), threading.Event(), threading.Event()\n"
        "def work():\n"
        "    with turns.take():\n"
        "        begun.set()\n"
        "        end.wait()\n"
        f"if {is_busy}:\n"
        "    threading.Thread(target=work).start()\n"
        "    begun.wait()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        with turns.take():\n"
        "            print('mine', flush=True)\n"
        "    except RequestInvalid as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "end.set()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert answer in done.stdout
