"""The browser app over a directory of runs: see and feel a latent space. Needs the extra `studio`."""
