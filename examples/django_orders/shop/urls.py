"""Which view answers which request."""

from django.urls import path

from . import views

urlpatterns = [
    path("orders", views.create),
    path("orders/<int:number>", views.show),
]
