{{- define "reef.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "reef.labels" -}}
app.kubernetes.io/name: reef
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "reef.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- /* What a device class's opaque parameters say; empty limits are left out. */ -}}
{{- define "reef.parameters" -}}
class: {{ .class }}
{{- with .of.memory }}
memory: {{ . | quote }}
{{- end }}
{{- with .of.compute }}
compute: {{ . | quote }}
{{- end }}
{{- end -}}
