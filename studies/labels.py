"""The runs of stochastic gradients by label."""

DSG, UDSG, CDSG = "DSG", "UDSG", "CDSG"
"""Those of DSG16."""
OURS_GRADIENT, OURS = "CDSG, gramless gradient", "CDSG, gramless default"
KEPT = "SVRG"
"""On Fourier features that are computed first."""
BETWEEN = " | "
"""Between the labels of a race."""
