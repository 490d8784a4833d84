"""unbraid: learn, measure and explore disentangled and structured latent representations."""
