"""Public data sets, your own files and synthetic stand-ins as design matrices, with their fitted encodings.

`load` reads the data sets of the ErasureHead paper, `synthetic` makes data of the same shape, and `read` reads your
own files. All return a `Dataset`, whose `Encoding` is saved with a model and applied to new files.
"""

from erasurehead.datasets.base import Dataset as Dataset
from erasurehead.datasets.base import Published as Published
from erasurehead.datasets.encoded import Encoded as Encoded
from erasurehead.datasets.encoded import EncodingReport as EncodingReport
from erasurehead.datasets.preprocessing.array_encoding import ArrayEncoding as ArrayEncoding
from erasurehead.datasets.preprocessing.encoding import Encoding as Encoding
from erasurehead.datasets.preprocessing.table_encoding import TableEncoding as TableEncoding
from erasurehead.datasets.published.images import IMAGES as IMAGES
from erasurehead.datasets.published.images import image_shape as image_shape
from erasurehead.datasets.published.images import load_images as load_images
from erasurehead.datasets.published.public import NAMES as NAMES
from erasurehead.datasets.published.public import available as available
from erasurehead.datasets.published.public import load as load
from erasurehead.datasets.published.public import published as published
from erasurehead.datasets.published.public import where as where
from erasurehead.datasets.published.search import Where as Where
from erasurehead.datasets.published.synthetic import synthetic as synthetic
from erasurehead.datasets.reading import read as read
