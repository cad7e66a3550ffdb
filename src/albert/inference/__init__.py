"""texts → answers: a loaded model that reads text and says what it thinks."""
