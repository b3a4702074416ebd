

def test_parameters_of_columns_are_remembered_for_a_few_sets() -> None:
    grids = Grids.draw(Laplace(), 1.0, 5, 8, 0) if hasattr(Grids, "draw") else None
