"""A Ctrl-C while a command is still importing ends it without a traceback. Imported first."""

import os
import signal
import sys
import threading

_is_command = os.path.basename(sys.argv[0]) == "milepost" or "milepost.cli" in sys.orig_argv  # noqa: PTH119 - pathlib takes time to import

if _is_command and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
