from django.apps import AppConfig


class PeopleConfig(AppConfig):
    name = "tests.hosts.people"
    label = "people"
