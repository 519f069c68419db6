"""Operations, and the socket that carries them."""
