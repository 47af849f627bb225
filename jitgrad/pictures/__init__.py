"""Pictures of a training: the backward graph, the gradients of each layer, the memory over a step."""
