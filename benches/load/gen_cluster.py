#!/usr/bin/env python3
"""Write a cluster as Kubernetes manifests.

  gen_cluster.py --hosts DIR/hosts --out FILE.json
      a Service for each name of `gen_zone.py --style k8s`, so that both servers of a comparison answer the same
  gen_cluster.py --services 10000 --endpoints 15 --out DIR
      many Services with endpoints in ten YAML files, for measuring memory
"""
import argparse
import json
import os


def from_hosts(path):
    services = {}
    for line in open(path):
        address, name = line.split()
        if name.startswith("svc-"):
            service, namespace = name.split(".")[:2]
            services.setdefault((namespace, service), []).append(address)
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in sorted({namespace for namespace, _ in services})
    ]
    for (namespace, service), addresses in services.items():
        spec = {
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        }
        metadata = {"name": service, "namespace": namespace}
        items.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def octets(base, number):
    return f"10.{base + (number >> 16)}.{(number >> 8) & 255}.{number & 255}"


def service(number, endpoints, namespaces):
    name, namespace = f"svc-{number:05d}", f"ns-{number % namespaces:04d}"
    yield f"""---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  clusterIP: {octets(96, number)}
  clusterIPs: [{octets(96, number)}]
  selector: {{app: {name}}}
  ports: [{{name: http, protocol: TCP, port: 80}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {{name: {name}-abcde, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}
ports: [{{name: http, protocol: TCP, port: 8080}}]
endpoints:
"""
    for one in range(endpoints):
        target = f"{{kind: Pod, name: {name}-{one:05d}, namespace: {namespace}}}"
        yield f"- {{addresses: [{octets(128, number * endpoints + one)}], conditions: {{ready: true}}, targetRef: {target}}}\n"


def many(out, services, endpoints, namespaces):
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/namespaces.yaml", "w") as file:
        for number in range(namespaces):
            file.write(f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: ns-{number:04d}}}\n")
    for part in range(10):
        with open(f"{out}/part-{part}.yaml", "w") as file:
            for number in range(part, services, 10):
                file.writelines(service(number, endpoints, namespaces))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--hosts")
    parser.add_argument("--services", type=int, default=10_000)
    parser.add_argument("--endpoints", type=int, default=15)
    parser.add_argument("--namespaces", type=int, default=100)
    options = parser.parse_args()
    if options.hosts:
        with open(options.out, "w") as file:
            json.dump(from_hosts(options.hosts), file)
    else:
        many(options.out, options.services, options.endpoints, options.namespaces)


if __name__ == "__main__":
    main()
