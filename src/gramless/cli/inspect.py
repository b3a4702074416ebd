"""``gramless inspect``: what a model file holds."""

from __future__ import annotations

from typing import Any

from gramless.cli.options import AsJson, Debug, ModelFile
from gramless.cli.report import facts, number, reporting, sized


def inspect(model: ModelFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Tell what a model file holds, from its header alone.

    The class, the parameters and what was chosen; arrays by type and shape.
    """
    with reporting(as_json, debug) as report:
        from gramless.estimators.persistence import describe

        found = describe(model)
        head = {
            "class": found["class"],
            "written by": f"gramless {found['gramless_version']}, format {found['format']}",
            "size": sized(found["bytes"]),
        }
        report.result(found, facts(head | _fitted(found["fitted"]) | _params(found["params"])))


def _fitted(fitted: dict[str, Any]) -> dict[str, Any]:
    bins = fitted.get("features_", {}).get("fitted", fitted)
    names = fitted.get("feature_names_in_")
    settings = fitted.get("settings_", {})
    alpha = fitted.get("alpha_")
    return {
        "inputs": _brief(names) if names else bins["widths_"]["shape"][1],
        "classes": _brief(fitted.get("classes_")),
        "scaling": settings.get("scaling"),
        "bandwidth": _brief(fitted.get("bandwidth_")),
        "relevance": ("learned" if settings.get("relevance") else "equal") if settings else None,
        "alpha": None if alpha is None else number(alpha),
        "grids": f"{bins['widths_']['shape'][0]:,}",
        "bins": f"{bins['keys']['shape'][0]:,}",
        "trials": len(fitted["search_"]) if "search_" in fitted else None,
        "solver": _solver(fitted),
    }


def _params(params: dict[str, Any]) -> dict[str, Any]:
    nested = {f"parameter {name}": _brief(value) for name, value in sorted(params.items())}
    return {name: value for name, value in nested.items() if value is not None}


def _solver(fitted: dict[str, Any]) -> str | None:
    if "status_" not in fitted:
        return None
    return f"{fitted['status_']} after {fitted['n_iter_']} iterations"


def _brief(value: Any) -> str | None:
    """Return a value in one short line."""
    if isinstance(value, dict) and set(value) == {"dtype", "shape"}:
        size = " x ".join(str(n) for n in value["shape"])
        return f"{size} values of {value['dtype']}" if size else f"one value of {value['dtype']}"
    if isinstance(value, dict):
        inner = value.get("params", value)
        parts = [f"{key}={_brief(item)}" for key, item in inner.items() if key != "class"]
        name = value.get("class", "")
        return f"{name}({', '.join(parts)})" if name else ", ".join(parts)
    if isinstance(value, list):
        shown = ", ".join(map(str, value[:8]))
        return f"{len(value)}: {shown}{', ...' if len(value) > 8 else ''}"
    if isinstance(value, float):
        return number(value)
    return None if value is None else str(value)
