"""An application that is never there: who imports it waits until it is killed."""

import signal

signal.pause()
