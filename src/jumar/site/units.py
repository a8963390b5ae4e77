"""The two services of a site, for systemd; and the capabilities that root's program is left with."""

from jumar.site.places import Places

CAPABILITIES = ("setuid", "setgid", "chown", "kill", "sys_admin", "sys_chroot", "sys_resource")
"""All that changing identity, namespaces and cgroups takes. Without dac_override the kernel keeps root's
program out of closed homes too."""
ROOT_UNIT, SERVER_UNIT = "jumar-root.service", "jumar.service"


def units(places: Places, account: str) -> dict[str, str]:
    """Their texts by name."""
    capabilities = " ".join(f"CAP_{name.upper()}" for name in CAPABILITIES)
    program = places.current
    root = f"""\
[Unit]
Description=jumar: starts jobs as their submitters
After=local-fs.target nss-user-lookup.target

[Service]
ExecStart={program}/bin/python3 -I {program}/root.py {places.toml}
Restart=always
RestartSec=1
# Jobs outlive it: they go on while it is restarted or replaced.
KillMode=process
Delegate=yes
CapabilityBoundingSet={capabilities}
TasksMax=infinity
LimitMEMLOCK=infinity
LimitNOFILE=1048576
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""
    server = f"""\
[Unit]
Description=jumar: the server of the site
Wants={ROOT_UNIT}
After=network.target {ROOT_UNIT}

[Service]
User={account}
Group={account}
Environment=JUMAR_HOME={places.home} JUMAR_SITE={places.toml} HOME={places.home}
EnvironmentFile=-{places.server_settings}
RuntimeDirectory=jumar jumar-job
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
ExecStart={program}/bin/jumar up
Restart=always
RestartSec=1
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""
    return {ROOT_UNIT: root, SERVER_UNIT: server}
