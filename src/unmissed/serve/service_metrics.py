"""ServiceMetrics: what the service counts for Prometheus, over all worker processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from unmissed.serve.projects import Project

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
Projects = Callable[[], Mapping[str, Project]]


def share_metrics(folder: str, slot: str) -> None:
    """Keep the counts of this process in files of a folder that its processes share; call it before any other use.

    No two running processes have the same slot. A process that gets the slot of one that ended continues its counts.
    """
    os.environ[FOLDER] = folder
    values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]


class ServiceMetrics:
    """Counters and histograms of requests, and the age of the runs.

    Parameters
    ----------
    projects : returns the current projects
    """

    def __init__(self, projects: Projects) -> None:
        own = CollectorRegistry()
        labels = ["endpoint", "method", "status"]
        self._requests = Counter("unmissed_requests", "Requests that were answered.", labels, registry=own)
        self._seconds = Histogram(
            "unmissed_request_seconds", "Time to answer a request.", ["endpoint"], buckets=_SECONDS, registry=own
        )
        self._texts = Counter("unmissed_texts", "Texts that were ranked.", ["project"], registry=own)
        self._errors = Counter("unmissed_errors", "Requests that failed in the service (5xx).", registry=own)
        self._reloads = Counter("unmissed_reloads", "Reloads of the runs.", ["result"], registry=own)
        self._open = Gauge(
            "unmissed_requests_in_progress",
            "Requests that are being answered.",
            registry=own,
            multiprocess_mode="sum",
        )
        self._open.set(0)  # a process that was killed left its own
        self._registry = own
        folder = os.environ.get(FOLDER) if values.ValueClass is not values.MutexValue else None
        if folder is not None:
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry, folder)  # type: ignore[no-untyped-call]
        self._registry.register(_RunCollector(projects))
        self._series = cache(self._find_series)  # endpoints, methods and status codes are few

    def _find_series(self, endpoint: str, method: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(endpoint, method, str(status)), self._seconds.labels(endpoint)

    def begin(self) -> None:
        """Count a request that begins."""
        self._open.inc()

    def end(self, endpoint: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._open.dec()
        count, duration = self._series(endpoint, method, status)
        count.inc()
        duration.observe(seconds)
        if status >= 500:
            self._errors.inc()

    def texts(self, project: str, number: int) -> None:
        """Count ranked texts."""
        self._texts.labels(project).inc(number)

    def reload(self, succeeded: bool) -> None:
        """Count a reload."""
        self._reloads.labels("ok" if succeeded else "failed").inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _RunCollector:
    """The runs: method and sizes, and the seconds since they were written and opened."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects

    def collect(self) -> Iterable[Any]:
        """Return the metrics of the current projects."""
        info = GaugeMetricFamily(
            "unmissed_run_info", "A run that is served.", labels=["project", "method", "n_labels", "calibrated"]
        )
        age = GaugeMetricFamily("unmissed_run_age_seconds", "Seconds since the run was written.", labels=["project"])
        opened = GaugeMetricFamily("unmissed_run_open_seconds", "Seconds since the run was opened.", labels=["project"])
        now = time.time()
        for project in self._projects().values():
            method, n_labels = project.run.recipe.method, str(project.run.n_labels)
            info.add_metric([project.id, method, n_labels, "yes" if project.is_calibrated else "no"], 1)
            opened.add_metric([project.id], now - project.opened)
            if project.modified is not None:
                age.add_metric([project.id], now - project.modified)
        return [info, age, opened]
