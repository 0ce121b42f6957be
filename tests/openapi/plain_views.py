"""An API of plain views of Django, which only a document describes."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt

NOTES: dict[int, dict[str, Any]] = {}
BY_KEY = {"key-one": "robot"}


def reset() -> None:
    NOTES.clear()
    NOTES.update({1: {"id": 1, "text": "Tea", "done": False}})


def name_of_caller(request: HttpRequest) -> str:
    if request.user.is_authenticated:
        return request.user.get_username()
    return BY_KEY.get(request.headers.get("X-Key", ""), "")


@csrf_exempt
def notes(request: HttpRequest) -> HttpResponse:
    if not name_of_caller(request):
        return JsonResponse({"detail": "Who is this?"}, status=401)
    if request.method == "GET":
        wanted = request.GET.getlist("word")
        rows = [row for row in NOTES.values() if not wanted or row["text"] in wanted]
        return JsonResponse({"notes": rows, "caller": name_of_caller(request)})
    data = json.loads(request.body)
    if len(data["text"]) > 5:
        return JsonResponse({"text": ["It is too long."]}, status=400)
    NOTES[2] = {"id": 2, "text": data["text"], "done": False, "by": name_of_caller(request)}
    return JsonResponse(NOTES[2], status=201)


@csrf_exempt
def note(request: HttpRequest, pk: str) -> HttpResponse:
    if not request.user.is_authenticated:
        return JsonResponse({}, status=403)
    if int(pk) not in NOTES:
        return JsonResponse({}, status=404)
    if request.method == "DELETE":
        del NOTES[int(pk)]
        return HttpResponse(status=204)
    return JsonResponse(NOTES[int(pk)])


async def ping(request: HttpRequest) -> HttpResponse:
    user = await request.auser()
    return JsonResponse({"pong": request.GET.get("with", ""), "user": user.get_username()})


api = [
    path("notes/", notes),
    re_path(r"^notes/(?P<pk>[0-9]+)/$", note),
    path("ping", ping),
]
urlpatterns = [path("v2/", include(api))]

DOCUMENT = """
openapi: 3.0.3
info: {title: Notes, version: "2"}
servers: [{url: "https://notes.example/v2"}]
security: [{login: []}, {key: []}]
paths:
  /notes/:
    get:
      operationId: notes.list
      summary: List the notes
      parameters:
      - {$ref: "#/components/parameters/Word"}
      responses: {"200": {description: Yes}}
    post:
      operationId: notes.create
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: "#/components/schemas/Note"}}}
      responses: {"201": {description: Made}}
  /notes/{id}/:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get:
      operationId: notes.read
      security: [{login: []}]
      responses: {"200": {description: Yes}}
    delete:
      operationId: notes.delete
      security: [{login: []}]
      responses: {"204": {description: Gone}}
  /ping:
    get:
      security: []
      parameters: [{name: with, in: query, schema: {type: string}}]
      responses: {"200": {description: Yes}}
  /nowhere:
    get:
      operationId: nowhere
      responses: {"200": {description: Yes}}
components:
  parameters:
    Word: {name: word, in: query, schema: {type: array, items: {type: string}}}
  schemas:
    Note:
      type: object
      required: [text]
      properties:
        id: {type: integer, readOnly: true}
        text: {type: string, description: What to think of}
  securitySchemes:
    login: {type: apiKey, in: cookie, name: sessionid}
    key: {type: apiKey, in: header, name: X-Key}
"""
