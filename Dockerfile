# The program quorate, which knows Kubernetes. It verifies servers with --cacert: there is no other file in the image.
FROM scratch
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/quorate /quorate
USER 65532:65532
ENTRYPOINT ["/quorate"]
