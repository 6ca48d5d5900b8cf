{{/* `always` if the admission policies are installed, else `never`. `auto` depends on the server's version: ValidatingAdmissionPolicy is v1 from Kubernetes 1.30 on. */}}
{{- define "warren.policy" -}}
{{- if eq .Values.policy "auto" -}}
{{- ternary "always" "never" (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
{{- else -}}
{{- .Values.policy -}}
{{- end -}}
{{- end -}}
