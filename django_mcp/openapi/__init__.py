"""Operations that OpenAPI describes as tools."""
