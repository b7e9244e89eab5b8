# Stands before scripts that run in two processes, which find each other by files in their folder.
import os
import time


def publish(name, content):
    with open(name + ".part", "wb") as file:
        file.write(content)
    os.rename(name + ".part", name)


def published(name):
    while not os.path.exists(name):
        time.sleep(0.01)
    with open(name, "rb") as file:
        return file.read()


