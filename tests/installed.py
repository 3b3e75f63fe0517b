"""Packages that tests install: a folder on the path with a module and the metadata of its entry points."""


def install(folder, monkeypatch, group, name, module, source):
    """Make a module importable, and `name = "module:Own"` an entry point of a group."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:Own\n")
    (folder / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
