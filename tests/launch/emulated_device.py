"""The environment of programs that tests run on the emulated device."""
import os


def environment(setting=''):
    """With a setting of the device, such as 'discrete fails_at=700', and how it gets its work: 'waits=stream graphs=off'."""
    work = [word for word in setting.split() if word.startswith(('graphs', 'waits'))]
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', YAMATA_EMULATED_DEVICE=setting,
                YAMATA_DEVICE=' '.join(work))
