"""Where label blocks run: in this process, in threads, later on a cluster."""

from unmissed.execution.threads import Executor, Threads, count_jobs

__all__ = ["Executor", "Threads", "count_jobs"]
