"""Fine-tune models on tasks, evaluate them and predict: GLUE, SQuAD, RACE and tables of your own."""
