"""What the files of a model folder are called; those of its vocabulary are in text/folder.py."""

CONFIG_NAME = "config.json"
CARD_NAME = "README.md"
SAFETENSORS_NAME = "model.safetensors"
PICKLED_NAME = "pytorch_model.bin"
# What a model was fine-tuned for.
TASK_NAME = "task.json"
SPECIAL_TOKENS_NAME = "special_tokens_map.json"
