"""The whole road in minutes: text and labelled reviews come in; models, scores and a report go out."""
