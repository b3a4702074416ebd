"""Model files: exact round trips, and one clear error for whatever else a file may hold."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from gramless import (
    Hybrid,
    KernelClassifier,
    KernelRegressor,
    Nystrom,
    RandomBinning,
    RandomFourier,
    SmoothBinning,
    load,
    save,
)
from gramless.base.errors import InputError, KernelError, ModelFileError
from gramless.datasets import Table
from gramless.estimators import persistence
from gramless.estimators.persistence import describe
from gramless.features.hybrid import parts_of
from gramless.kernels import ExponentialPower, Hat, Kernel, Laplacian, Mixture
from gramless.solvers.cg import ConjugateGradient
from gramless.solvers.preconditioners import Identity, SampledRows

from . import saved_models

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
NUMBERS = X[:, 0] + X[:, 1] ** 2
THREE = np.digitize(NUMBERS, [0.5, 1.5])
NEW = RNG.normal(size=(300, 4)) * 2
FAST = {"bandwidth": 2.0, "alpha": 1e-3, "scaling": "standard", "random_state": 0}


def small(**options):
    return RandomBinning(**{"n_grids": 8, "random_state": 3, **options})


def mixed_table(n=200):
    values = X[:n].copy()
    values[3, 0] = np.nan
    text = np.array(["röd", "", "blå\n\"'\\"], dtype=object)[np.arange(n) % 3]
    return Table({"a": values[:, 0], "b c": values[:, 1], "t": text})


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """Return a file whose short arrays are plain, so that tests can change their numbers."""
    path = tmp_path_factory.mktemp("models") / "model.gramless"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gramless.base.state._MIN_NUMBERS", 1024)
        save(KernelClassifier(small(), **FAST).fit(X, THREE), path)
    return path


@pytest.fixture
def there(tmp_path):
    return tmp_path / "model.gramless"


def again(model, path):
    save(model, path)
    assert os.listdir(path.parent) == [path.name]
    return load(path)


def same(actual, expected):
    assert type(actual) is type(expected)
    assert actual.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(actual, expected)


CLASSES = {
    "two": (NUMBERS > 1).astype(int),
    "three": THREE,
    "floats": np.where(NUMBERS > 1, 2.0, -1.0),
    "bool": NUMBERS > 1,
    "text": np.array(["ä", "b", "c d"])[THREE],
    "object text": np.array(["x", "\ud800 lone", 'quote " \\ {}'], dtype=object)[THREE],
    "uint8": THREE.astype(np.uint8),
    "many": np.arange(200) % 40,
}


def test_loaded_classifiers_keep_labels_of_every_type(there):
    for kind in CLASSES:
        model = KernelClassifier(small(), **FAST).fit(X, CLASSES[kind])
        result = again(model, there)
        same(result.classes_, model.classes_)
        same(result.predict(NEW), model.predict(NEW))
        same(result.decision_function(NEW), model.decision_function(NEW))


OPTIONS = [
    {},
    {"scaling": "none"},
    {"scaling": "quantile"},
    {"bandwidth": np.array([1.0, np.inf, 0.5, 2.0])},
    {"solver": "cg"},
    {"solver": ConjugateGradient(Identity(), tol=1e-2, max_iter=7)},
    {"solver": ConjugateGradient()},
    {"solver": ConjugateGradient(SampledRows(n_rows=7))},
    {"random_state": np.random.RandomState(1)},
    {"n_jobs": 2, "verbose": 0, "max_iter": 5},
    {"alpha": np.float32(0.25)},
]


def test_loaded_regressors_keep_their_options(there):
    for k, options in enumerate(OPTIONS):
        y = np.c_[NUMBERS, X[:, 2]] if k % 2 else NUMBERS
        model = KernelRegressor(small(), **{**FAST, **options}).fit(X, y)
        result = again(model, there)
        same(result.predict(NEW), model.predict(NEW))
        for name in ("n_jobs", "max_iter", "tol", "scaling", "solver"):
            assert getattr(result, name) == getattr(model, name)
        same(np.asarray(result.bandwidth), np.asarray(model.bandwidth))


def test_loaded_models_keep_their_search(there):
    model = KernelRegressor(random_state=0).fit(X[:60], NUMBERS[:60])
    result = again(model, there)
    same(result.predict(NEW), model.predict(NEW))
    np.testing.assert_equal(result.search_, model.search_)
    np.testing.assert_equal(vars(result.settings_), vars(model.settings_))
    assert result.history_ == model.history_


@pytest.mark.parametrize(
    ("kernel", "precision"),
    [
        ("hat", np.float32),
        (Laplacian(), np.float64),
        (ExponentialPower(0.3), sp.csr_array),
        (Mixture((Hat(), Laplacian()), (1.0, 2.0)), np.float64),
    ],
)
def test_loaded_feature_maps_transform_the_same(kernel, precision, there):
    rows, new = (
        (sp.csr_array(X * (X > 0)), sp.csr_array(NEW * (NEW > 0)))
        if precision is sp.csr_array
        else (X.astype(precision), NEW.astype(precision))
    )
    binning = small(kernel=kernel, bandwidth=1.5).fit(rows)
    result = again(binning, there)
    assert (result.transform(new) != binning.transform(new)).nnz == 0
    assert result.get_params() == binning.get_params()
    for name in ("widths_", "shifts_", "n_bins_", "offsets_", "nu_", "bandwidth_"):
        same(getattr(result, name), getattr(binning, name))
    for name in ("kappa_", "kappa_bar_", "seed_", "n_features_in_"):
        assert getattr(result, name) == getattr(binning, name)


def test_kernel_given_as_a_function_is_saved_as_a_table(there):
    binning = small(kernel=lambda t: 1 / np.sqrt(1 + t)).fit(X)
    result = again(binning, there)
    assert (result.transform(NEW) != binning.transform(NEW)).nnz == 0
    np.testing.assert_allclose(result.kernel.gram(X), binning_gram(X), atol=0.01)
    assert describe(there)["params"]["kernel"]["name"] == "tabulated_profile"


def binning_gram(rows):
    distances = np.abs(rows[:, None] - rows[None])
    return np.prod(1 / np.sqrt(1 + distances), axis=2)


def test_loaded_model_can_be_refitted(there):
    binning = again(small().fit(X), there)
    assert (binning.fit_transform(NEW) != small().fit_transform(NEW)).nnz == 0


def test_loaded_model_keeps_column_names_and_categories(there):
    table = mixed_table()
    model = KernelClassifier(small(), **FAST).fit(table, THREE)
    result = again(model, there)
    same(result.decision_function(table), model.decision_function(table))
    same(result.feature_names_in_, model.feature_names_in_)
    assert result.n_features_in_ == 3
    with pytest.raises(InputError, match="missing now: 't'"):
        result.predict(Table({name: table.column(name) for name in ("a", "b c")}))


def test_output_configuration_is_not_saved(there):
    binning = small().set_output(transform="default").fit(X)
    assert not hasattr(again(binning, there), "_sklearn_output_config")


def test_equal_models_give_equal_files(there, tmp_path):
    for name in ("a", "b"):
        save(KernelRegressor(small(), **FAST).fit(X, NUMBERS), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_safetensors_reads_the_arrays(model_file):
    tensors = load_file(model_file)
    assert tensors["weights_"].shape == (len(tensors["features_.keys"]), 3)


def test_error_names_parameters_that_cannot_be_saved(there):
    for model, message in [
        (KernelRegressor(solver=object()), "solver is of the class object"),
        (KernelRegressor(max_iter=lambda: 3), "max_iter is of the class function"),
    ]:
        fitted = KernelRegressor(small(), **FAST).fit(X, NUMBERS)
        vars(fitted).update({k: v for k, v in vars(model).items() if k != "features"})
        fitted.__class__ = type(model)
        with pytest.raises(InputError, match=message):
            save(fitted, there)
        assert not os.listdir(there.parent)


def test_dates_as_classes_cannot_be_saved(there):
    model = KernelClassifier(small(), **FAST).fit(X, THREE)
    model.classes_ = np.array(["2020", "2021", "2022"], dtype="datetime64[Y]")
    with pytest.raises(InputError, match="classes_ holds datetime64"):
        save(model, there)


class Own(RandomBinning):
    pass


class Mine(KernelRegressor):
    pass


@dataclass(frozen=True)
class Squashed(Kernel):
    name = "squashed"

    power: float

    def profile(self, distance):
        return 1.0 / (1.0 + distance**self.power)


def test_user_defined_classes_are_saved(there):
    model = Mine(Own(n_grids=4, random_state=0), **FAST).fit(X, NUMBERS)
    result = again(model, there)
    assert (type(result), type(result.features), type(result.features_)) == (Mine, Own, Own)
    same(result.predict(NEW), model.predict(NEW))
    model = Nystrom(Squashed(1.5), n_components=20, random_state=0).fit(X)
    result = again(model, there)
    assert result.kernel == Squashed(1.5)
    same(result.transform(NEW), model.transform(NEW))


def test_error_names_a_class_that_is_not_defined(there):
    content, tensors = persistence.pack(Own(n_grids=4, random_state=0).fit(X))
    assert content["class"] == f"{__name__}.Own"
    persistence.write(there, {**content, "class": "elsewhere.Own"}, tensors)
    assert "'elsewhere.Own', which gramless does not have" in refused(there)


def test_kernels_with_a_registered_name_cannot_be_saved(there):
    @dataclass(frozen=True)
    class Copied(Kernel):
        name = "gaussian"

        def profile(self, distance):
            return np.exp(-distance)

    with pytest.raises(KernelError, match="another class has the name 'gaussian'"):
        save(Nystrom(Copied(), n_components=20).fit(X), there)
    save(Nystrom("gaussian", n_components=20).fit(X), there)


EVERYTHING = """
import importlib, pkgutil, sys, gramless

# What a file does not need is not imported.
gramless.load(sys.argv[1])
assert "gramless.estimators.regressor" in sys.modules
assert "gramless.unsupervised.clustering" not in sys.modules
from gramless.base.state import _CLASSES, Stateful
from gramless.estimators.persistence import define_classes

define_classes()
before = set(_CLASSES.values())
for module in pkgutil.walk_packages(gramless.__path__, "gramless."):
    if "torch" not in module.name and ".cli" not in module.name:
        importlib.import_module(module.name)
# Machines on clusters are not saved themselves.
def saved(kinds):
    return {kind for kind in kinds if ".distributed" not in kind.__module__}
assert saved(_CLASSES.values()) == before, saved(_CLASSES.values()) - before
def below(kind):
    return [kind, *(found for each in kind.__subclasses__() for found in below(each))]
assert saved(below(Stateful)) - {Stateful} == before, "two classes share a name"
"""


@pytest.mark.slow
def test_load_imports_every_class_that_can_be_saved(there):
    save(KernelRegressor(**FAST).fit(X, NUMBERS), there)
    subprocess.run([sys.executable, "-c", EVERYTHING, there], check=True)


OF_0_2_0 = saved_models.DATA / "models_0_2_0.zip"


def classes_of_0_2_0():
    with zipfile.ZipFile(OF_0_2_0) as archive:
        return json.loads(archive.read("classes.json"))


@pytest.fixture(scope="module")
def models_of_0_2_0(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    zipfile.ZipFile(OF_0_2_0).extractall(folder)
    return folder


REMOVED = {
    "density": "Density",
    "kernel_kmeans": "KernelKMeans",
    "label_spreading": "LabelSpreading",
    "blocks": "IndependentBlocks",
    "regressor_blocks": "IndependentBlocks",
}


def test_files_of_0_2_0_predict_the_same(models_of_0_2_0):
    for name in [name for name in classes_of_0_2_0() if name not in REMOVED]:
        model = load(models_of_0_2_0 / f"{name}.gramless")
        with np.load(models_of_0_2_0 / "answers.npz") as archive:
            expected = {key: archive[key] for key in archive.files if key.startswith(f"{name}.")}
        actual = saved_models.answers(name, model)
        assert expected
        for key, value in expected.items():
            result = actual[key.partition(".")[2]]
            if value.dtype.kind == "f":
                # The answers come from another processor; some features have single precision.
                np.testing.assert_allclose(result, value, rtol=2e-5, atol=2e-5)
            else:
                np.testing.assert_array_equal(result, value)


def test_files_of_removed_classes_name_the_last_version(models_of_0_2_0):
    for name in REMOVED:
        with pytest.raises(ModelFileError, match=rf"{REMOVED[name]}.*0\.2\.0"):
            load(models_of_0_2_0 / f"{name}.gramless")


# Grown grids in few bytes.


@pytest.fixture(scope="module")
def grown():
    rng = np.random.default_rng(5)
    rows = np.tile(rng.normal(size=(6000, 4)), 5)
    target = np.sin(5 * rows[:, 0]) + rows[:, 1] * np.sign(rows[:, 2]) + 0.3 * rng.normal(size=6000)
    options = {"grids": "grown", "effort": 2, "solver": "cg", "random_state": 0}
    return KernelRegressor(**options).fit(rows, target), rows


def test_grown_models_are_saved_in_four_bytes_per_bin(grown, there):
    model, rows = grown
    result = again(model, there)
    parts = load_file(there).items()
    arrays = sum(part.nbytes for name, part in parts if name.startswith(("weights_", "features_")))
    n_bins = len(model.weights_)
    assert n_bins > 10_000
    # Of inputs that are copies of others, boxes have many more cells than bins.
    assert arrays < 4 * n_bins
    for each in (result, pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert each.weights_.dtype == np.float64
        same(each.weights_, model.weights_)
        for name in ("widths_", "shifts_", "multipliers"):
            same(grids_of(each)[name], grids_of(model)[name])
        same(parts_of(each.features_)[0].keys, parts_of(model.features_)[0].keys)
        for bound, expected in zip(
            each.predict_interval(rows), model.predict_interval(rows), strict=True
        ):
            same(bound, expected)
        same(each.predict(rows * 1.01), model.predict(rows * 1.01))
    assert len(pickle.dumps(model)) < 1.02 * there.stat().st_size + 1000
    save(result, there.with_name("again"))
    assert there.read_bytes() == there.with_name("again").read_bytes()


def grids_of(model):
    return parts_of(model.features_)[0].state()["state"]


def test_only_weights_of_grown_grids_are_rounded(grown):
    model, rows = grown
    digits, _ = np.frexp(np.abs(model.weights_) / np.abs(model.weights_[model.weights_ != 0]).min())
    assert (np.ldexp(digits, 16) % 1 == 0).all()
    bins = KernelRegressor(small(), **FAST).fit(rows, rows[:, 0])
    assert (bins.weights_.astype(np.float32) != bins.weights_).mean() > 0.5


def test_bins_with_zero_weight_are_dropped(grown):
    model, rows = grown
    bins = parts_of(model.features_)[0]
    assert model.weights_[: bins.n_features_out].all()
    relearned, _ = bins.relearned(model.scaler_.rows(rows))
    assert relearned.n_features_out > bins.n_features_out


def test_describe_shows_the_form_of_compact_arrays(grown, there):
    model, _ = grown
    save(model, there)
    description = describe(there)["fitted"]["weights_"]
    assert description["form"] == "Deflated"
    assert description["shape"] == [len(model.weights_)]
    assert description["data"]["dtype"] == "U8"


# Pickles hold what files hold.


def test_pickles_are_as_small_as_files(there):
    for model in [
        KernelClassifier(**FAST),
        KernelRegressor(RandomFourier(n_components=64), **FAST),
        KernelRegressor(SmoothBinning(n_grids=32), **FAST),
        KernelRegressor(Nystrom(n_components=50), **FAST),
        KernelRegressor(Hybrid([small(), Nystrom(n_components=50)]), **FAST),
    ]:
        model.fit(X, THREE)
        expected = model.predict(NEW)
        data = pickle.dumps(model)
        save(model, there)
        assert len(data) < 1.02 * there.stat().st_size + 1000
        for result in (pickle.loads(data), copy.deepcopy(model), copy.copy(model)):
            same(result.predict(NEW), expected)
            assert clone(result).get_params().keys() == model.get_params().keys()
        assert len(pickle.dumps(pickle.loads(data))) < 1.02 * there.stat().st_size + 1000


def test_pickles_keep_what_files_cannot_hold():
    model = KernelRegressor(small(), **{**FAST, "verbose": Thing()}).fit(X, NUMBERS)
    model.note, model._own = "said later", Thing()
    result = pickle.loads(pickle.dumps(model))
    assert {type(result.verbose), type(result._own)} == {Thing}
    assert result.note == "said later"
    same(result.predict(NEW), model.predict(NEW))
    unfitted = pickle.loads(pickle.dumps(KernelRegressor(solver=Thing())))
    assert isinstance(unfitted.solver, Thing)
    generator = np.random.RandomState(3)
    kept = pickle.loads(pickle.dumps(small(random_state=generator).fit(X))).random_state
    assert kept.randint(1000) == generator.randint(1000)


class Thing:
    def __bool__(self):
        return False


def test_unfitted_models_cannot_be_saved(there):
    with pytest.raises(NotFittedError):
        save(KernelRegressor(), there)


# Writing: whole or not at all.


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_failed_write_keeps_the_old_file(fails, there, monkeypatch):
    model = KernelRegressor(small(), **FAST).fit(X, NUMBERS)
    there.write_bytes(b"precious")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(persistence.os, fails, fail)
    with pytest.raises(ModelFileError, match=r"model\.gramless cannot be written \(No space"):
        save(model, there)
    assert there.read_bytes() == b"precious"
    assert os.listdir(there.parent) == [there.name]


def test_interrupted_write_leaves_no_file(there, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(persistence.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(small().fit(X), there)
    assert not os.listdir(there.parent)


def test_unwritable_paths_are_rejected(tmp_path):
    for place in ["absent/model", "."]:
        with pytest.raises(ModelFileError, match=r"cannot be written|not a regular file"):
            save(small().fit(X), tmp_path / place)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_saved_files_have_default_permissions_and_follow_links(there, tmp_path):
    there.symlink_to(tmp_path / "real")
    save(small().fit(X), there)
    assert there.is_symlink()
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


# Reading: whatever a file holds, a model or one error that names the file.


def refused(path, match=None):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_and_unreadable_files_are_rejected(there, tmp_path):
    refused(there, "no model file")
    refused(tmp_path, "cannot be read")


def test_files_of_other_formats_are_rejected(there):
    for content in [
        b"",
        b"\0" * 8,
        b"\xff" * 100,
        b"a,b\n1,2\n" * 50,
        b"\x80\x04\x95" + b"x" * 99,
        b"{}" * 99,
    ]:
        there.write_bytes(content)
        refused(there)


def test_safetensors_files_without_a_model_are_rejected(there):
    save_file({"a": np.eye(2)}, there)
    refused(there, "not a gramless model")
    save_file({"a": np.eye(2)}, there, metadata={"format": "gramless"})
    refused(there)


def test_truncated_files_are_rejected(model_file, there):
    whole = model_file.read_bytes()
    for cut in [*range(0, 200, 7), *np.linspace(200, len(whole) - 1, 60).astype(int)]:
        there.write_bytes(whole[:cut])
        refused(there)
    there.write_bytes(whole + b"\0")
    refused(there)


def test_flipped_bits_are_rejected(model_file, there):
    whole = bytearray(model_file.read_bytes())
    length = 8 + int.from_bytes(whole[:8], "little")
    places = [*range(16), *RNG.integers(16, length, 250), length - 1]
    places += [*RNG.integers(length, len(whole), 100), length, len(whole) - 1]
    for place in places:
        bit = 1 << int(RNG.integers(8))
        whole[place] ^= bit
        there.write_bytes(whole)
        refused(there)
        whole[place] ^= bit
    there.write_bytes(whole)
    load(there)


def split(path):
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def join(path, entries, data, *, sign=True):
    metadata = entries["__metadata__"]
    if sign:
        metadata["data_sha256"] = hashlib.sha256(data).hexdigest()
        metadata["header_sha256"] = "0" * 64
    text = json.dumps(entries, separators=(",", ":")).encode()
    if sign:
        digest = hashlib.sha256(len(text).to_bytes(8, "little") + text).hexdigest()
        text = text.replace(b'"header_sha256":"' + b"0" * 64, f'"header_sha256":"{digest}'.encode())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def forged(source, target, change, *, sign=True):
    """Write a file whose model was changed, by default with checksums that fit."""
    entries, data = split(source)
    model = json.loads(entries["__metadata__"]["model"])
    change(model)
    entries["__metadata__"]["model"] = json.dumps(model)
    join(target, entries, data, sign=sign)


def retensored(source, target, changed):
    """Write a file with other arrays, or without some, with checksums that fit."""
    metadata = split(source)[0]["__metadata__"]
    tensors = {**load_file(source), **changed}
    kept = {name: array.copy() for name, array in tensors.items() if array is not None}
    save_file(kept, target)
    entries, data = split(target)
    join(target, {"__metadata__": metadata, **entries}, data)


def test_rewritten_file_without_a_change_loads(model_file, there):
    forged(model_file, there, lambda model: None)
    same(load(there).predict(NEW), load(model_file).predict(NEW))
    retensored(model_file, there, {})
    same(load(there).predict(NEW), load(model_file).predict(NEW))


def test_edited_header_fails_its_checksum(model_file, there):
    forged(model_file, there, lambda model: model["state"].update(alpha_=7.0), sign=False)
    refused(there, "header does not have the checksum")
    with pytest.raises(ModelFileError, match="header does not have the checksum"):
        describe(there)


def test_edited_data_fail_their_checksum(model_file, there):
    data = split(model_file)[1]
    there.write_bytes(model_file.read_bytes()[: -len(data)] + bytes(len(data)))
    refused(there, "data do not have the checksum")
    assert describe(there)["class"] == "KernelClassifier"


def test_a_newer_format_says_to_upgrade(model_file, there):
    entries, data = split(model_file)
    entries["__metadata__"].update(format_version="3", gramless_version="9.9")
    join(there, entries, data)
    assert "9.9" in refused(there, "Install a newer gramless")


def test_unknown_class_names_are_rejected(model_file, there):
    for name in ["os.system", "Pipeline", "object", "Own", "", None, 3, ["a"]]:
        for place in (("class",), (*FEATURES, "class"), ("state", "scaler_", "record")):
            forged(model_file, there, put(*place, name))
            refused(there)


def put(*path):
    """Return a change that puts the last of ``path`` at the place named by the others."""

    def change(model):
        for key in path[:-2]:
            model = model[key]
        model[path[-2]] = path[-1]

    return change


FEATURES = ("state", "features_", "model")
KERNEL = ("params", "features", "model", "params", "kernel")
ONE_NUMBER = {"dict": {"dtype": "float32", "columns": [{"dict": {"name": "a", "fill": 0.5}}]}}
FOUR_NUMBERS = {
    "dict": {
        "dtype": "float32",
        "columns": [{"dict": {"name": name, "fill": 0.5}} for name in "abcd"],
    }
}
INPUTS = ("state", "inputs_", "fields")
REGRESSOR = {"class": "KernelRegressor", "params": {}}
HOSTILE = {
    "no state": put("state", None),
    "state no mapping": put("state", [1]),
    "method": put("state", "predict", 1),
    "dunder": put("state", "__class__", 1),
    "private": put("state", "_check_new_", 1),
    "odd name": put("state", "x y", 1),
    "unknown parameter": put("params", "surprise", 1),
    "params no mapping": put("params", 3),
    "unknown tag": put("state", "alpha_", {"call": "os.system"}),
    "marked method": put("state", "alpha_", {"value": 1}),
    "unknown kernel": put(*KERNEL, {"kernel": {"dict": {"name": "x"}}}),
    "features no map": put("state", "features_", 3),
    "features a regressor": put("state", "features_", {"model": REGRESSOR}),
    "features unfitted": put(*FEATURES, "state", None),
    "grids gone": put(*FEATURES, "state", "widths_", 1.5),
    "absent tensor": put("state", "weights_", {"tensor": "nowhere"}),
    "tensor of another": put("state", "weights_", {"tensor": "features_.keys"}),
    "coef a list": put("state", "weights_", [1.0]),
    "no intercept": put("state", "intercept_", None),
    "intercept a number": put("state", "intercept_", 0.5),
    "no classes": put("state", "classes_", None),
    "classes too few": put("state", "classes_", {"text": ["a", "b"], "object": True}),
    "classes mixed": put("state", "classes_", {"text": ["a", 2, None], "object": True}),
    "number of inputs": put("state", "n_features_in_", 5),
    "inputs of the map": put(*FEATURES, "state", "n_features_in_", 5),
    "names": put("state", "feature_names_in_", {"text": ["a"], "object": True}),
    "scaler": put("state", "scaler_", None),
    "scaler kind": put("state", "scaler_", "fields", "kind", "quantile"),
    "scaler field": put("state", "scaler_", "fields", "surprise", 1),
    "inputs": put("state", "inputs_", None),
    "encoder": put(*INPUTS, "encoder", {"encoder": {"dict": {"columns": [], "dtype": "f4"}}}),
    "encoder that does not fit": put(*INPUTS, "encoder", {"encoder": ONE_NUMBER}),
    "encoder beside gaps": put(*INPUTS, "encoder", {"encoder": FOUR_NUMBERS}),
    "no encoder": put(*INPUTS, "encoder", [1]),
    "gaps": put(*INPUTS, "gaps", 3),
    "gaps that do not fit": put(*INPUTS, "gaps", "fields", "fill", [1.0, 2.0]),
    "categories": put(*INPUTS, "categorical", [True, False, True, True]),
    "scaler categories": put("state", "scaler_", "fields", "categorical", 1),
    "seed": put(*FEATURES, "state", "seed_", "0"),
    "infinite": put("state", "alpha_", {"float": "1e999"}),
    "alpha": put("state", "alpha_", True),
}


def test_forged_content_is_rejected(model_file, there):
    for kind in HOSTILE:
        forged(model_file, there, HOSTILE[kind])
        refused(there)


def test_files_with_categories_as_columns_ask_for_a_new_fit(there):
    source = there.with_name("source")
    save(KernelRegressor(small(), **FAST).fit(mixed_table(), NUMBERS), source)

    def change(model):
        config = model["state"]["inputs_"]["fields"]["encoder"]["encoder"]["dict"]
        config["columns"][2]["dict"]["other"] = False

    forged(source, there, change)
    assert "fit the model again" in refused(there)


def containers(value):
    """Yield every list and mapping with each of its keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from containers(value[key])


ODD = [None, 0, -1, 2**63, 1.5, "x", [], [1], {}, True, {"float": "nan"}, {"tensor": "weights_"}]


def test_replaced_values_are_rejected_or_predict(tmp_path, there):
    source, table = tmp_path / "source", mixed_table(60)
    save(KernelClassifier(small(), **{**FAST, "max_iter": 3}).fit(table, THREE[:60]), source)
    rng = np.random.default_rng(5)

    def change(model):
        places = list(containers(model["state"]))
        container, key = places[rng.integers(len(places))]
        container[key] = ODD[rng.integers(len(ODD))]

    outcomes = set()
    for _ in range(200):
        forged(source, there, change)
        try:
            model = load(there)
        except ModelFileError:
            outcomes.add("refused")
            continue
        try:
            assert len(model.predict(table)) == 60
            outcomes.add("predicts")
        except InputError:
            outcomes.add("complains")
    assert outcomes >= {"refused", "predicts"}


def test_deep_nesting_is_rejected(model_file, there):
    for opening, closing in (("[", "]"), ('{"tuple":[', "]}"), ('{"dict":{"a":', "}}")):
        entries, data = split(model_file)
        deep = opening * 20_000 + "1" + closing * 20_000
        metadata = entries["__metadata__"]
        metadata["model"] = metadata["model"].replace('"alpha_": 0.001', f'"alpha_": {deep}')
        join(there, entries, data)
        refused(there)


def test_huge_header_is_rejected_without_reading_it(there):
    with open(there, "wb") as file:
        file.write((persistence.MAX_HEADER_BYTES + 8).to_bytes(8, "little"))
        file.truncate(persistence.MAX_HEADER_BYTES + 100)
    refused(there, "truncated or not a gramless model")


def test_header_above_the_limit_is_not_written(there, monkeypatch):
    monkeypatch.setattr(persistence, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(InputError, match="fewer categories"):
        persistence.write(there, *persistence.pack(small().fit(X)))
    assert not there.exists()


MALFORMED = {
    "coef short": lambda t: {"weights_": t["weights_"][:-1]},
    "coef wide": lambda t: {"weights_": np.c_[t["weights_"], t["weights_"]]},
    "coef flat": lambda t: {"weights_": t["weights_"][:, 0].copy()},
    "coef float32": lambda t: {"weights_": t["weights_"].astype(np.float32)},
    "coef cube": lambda t: {"weights_": t["weights_"][:, :, None].copy()},
    "coef empty": lambda t: {"weights_": t["weights_"][:, :0].copy()},
    "keys short": lambda t: {"features_.keys": t["features_.keys"][:-1]},
    "keys unsigned": lambda t: {"features_.keys": t["features_.keys"].view(np.uint64)},
    "offsets down": lambda t: {"features_.offsets_": t["features_.offsets_"][::-1].copy()},
    "offsets negative": lambda t: {"features_.offsets_": t["features_.offsets_"] - 1},
    "offsets huge": lambda t: {"features_.offsets_": t["features_.offsets_"] * 2**50},
    "offsets swing": lambda t: {
        "features_.offsets_": np.array([0, 2**63 - 1, -5, *t["features_.offsets_"][3:]])
    },
    "offsets short": lambda t: {"features_.offsets_": t["features_.offsets_"][:-1]},
    "offsets flat": lambda t: {"features_.offsets_": t["features_.offsets_"] // 10**6},
    "widths nan": lambda t: {"features_.widths_": t["features_.widths_"] * np.nan},
    "widths zero": lambda t: {"features_.widths_": t["features_.widths_"] * 0},
    "widths flat": lambda t: {"features_.widths_": t["features_.widths_"].ravel()},
    "widths none": lambda t: {"features_.widths_": t["features_.widths_"][:0].copy()},
    "shifts short": lambda t: {"features_.shifts_": t["features_.shifts_"][:-1]},
    "shifts infinite": lambda t: {"features_.shifts_": t["features_.shifts_"] + np.inf},
    "hash short": lambda t: {"features_.multipliers": t["features_.multipliers"][:, :-1].copy()},
    "cells short": lambda t: {"features_.cell_offsets": t["features_.cell_offsets"][:-1]},
    "unit short": lambda t: {"scaler_.unit": t["scaler_.unit"][:-1]},
    "classes": lambda t: {"classes_": np.arange(4)},
    "classes square": lambda t: {"classes_": np.eye(3)},
    "stowaway": lambda t: {"stowaway": np.eye(3)},
}


def test_inconsistent_arrays_are_rejected(model_file, there):
    for kind in MALFORMED:
        retensored(model_file, there, MALFORMED[kind](load_file(model_file)))
        assert "has no place" not in refused(there) or kind == "stowaway"


def test_arrays_of_unknown_types_are_rejected(model_file, there):
    entries, data = split(model_file)
    for name in ("BF16", "F8_E5M2", "nonsense", 3):
        changed = json.loads(json.dumps(entries))
        changed["weights_"]["dtype"] = name
        join(there, changed, data)
        refused(there)


def test_loaded_arrays_are_writable_copies_of_the_file(model_file, there):
    there.write_bytes(model_file.read_bytes())
    loaded = load(there)
    there.write_bytes(b"")
    loaded.weights_ *= 2
    assert loaded.decision_function(NEW).shape == (300, 3)


def test_describe_returns_class_parameters_and_shapes(model_file):
    result = describe(model_file)
    json.dumps(result, allow_nan=False)
    assert result["class"] == "KernelClassifier"
    assert result["bytes"] == model_file.stat().st_size
    assert result["params"]["alpha"] == 1e-3
    assert result["params"]["features"]["params"]["n_grids"] == 8
    assert result["fitted"]["weights_"]["shape"][1] == 3
    assert result["fitted"]["features_"]["fitted"]["widths_"] == {"dtype": "F64", "shape": [8, 4]}


def test_describe_rejects_inconsistent_content(model_file, there):
    for value in [{}, {"tensor": "nowhere"}, {"model": 3}, {"record": "x"}]:
        forged(model_file, there, put("state", "alpha_", value))
        with pytest.raises(ModelFileError, match="inconsistent"):
            describe(there)
        refused(there)


def test_describe_rejects_files_that_hold_no_model(there):
    there.write_bytes(b"no model")
    with pytest.raises(ModelFileError, match="truncated or not a gramless model"):
        describe(there)
    with pytest.raises(ModelFileError, match="no model file"):
        describe(Path("absent"))
