"""The colours of all pictures; apart from what draws them, which brings matplotlib along."""

# Okabe and Ito's colours without their yellow, which is lost on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
INK, GREY, PALE, PAPER = "#222222", "#666666", "#E4E4E4", "#FFFFFF"
