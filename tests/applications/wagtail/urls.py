"""No pages: commands and models only."""

urlpatterns: list[object] = []
