"""What all tests start from."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has SIGINT ignored, in them and in the processes they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
