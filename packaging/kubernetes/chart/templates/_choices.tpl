{{/* Whether the admission policies are installed: `auto` goes by the version of the server: its API of policies is v1 from 1.30 on. */}}
{{- define "warren.policy" -}}
{{- if eq .Values.policy "auto" -}}
{{- ternary "always" "never" (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
{{- else -}}
{{- .Values.policy -}}
{{- end -}}
{{- end -}}
