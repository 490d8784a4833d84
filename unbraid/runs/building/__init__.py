"""From a recipe to its parts: data, model, objective and critics."""
