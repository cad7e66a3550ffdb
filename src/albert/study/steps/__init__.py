"""What a step of training or inference takes: ALBERT and BERT of one shape, in fresh processes."""
